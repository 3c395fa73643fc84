"""Which operation of the language, and which phase of a step, an operation of the graph is in."""

from __future__ import annotations

import enum
import re

from mtf_models.mesh.engines.recorder import BACKWARD_NAME

_NUMBER = re.compile(r"\.(\d+)/")


class Phase(enum.StrEnum):
    """A part of a training step."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


Key = tuple[int, Phase]
"""The number of an operation of the language, or -1 if there is none; and the phase."""


def key_of(name: str, kind: str) -> Key:
    """Where an operation of the graph belongs.

    Args:
        name: its name in the graph.
        kind: TensorFlow's name of the operation.
    """
    found = _NUMBER.findall(name)
    if name.startswith(f"{Phase.UPDATE}/"):
        phase = Phase.UPDATE
    else:
        is_backward = BACKWARD_NAME in name or kind == "AddN"
        phase = Phase.BACKWARD if is_backward else Phase.FORWARD
    return int(found[-1]) if found else -1, phase
