"""Which operation of the language, and which phase of a step, an operation of the graph is in."""

from __future__ import annotations

import enum
import re

from mtf_models.mesh.engines.recorder import BACKWARD_NAME
from mtf_models.mesh.recording.program import Node

_NUMBER = re.compile(r"\.(\d+)/")


class Phase(enum.StrEnum):
    """A part of a training step."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


def key_of(node: Node) -> tuple[int, Phase]:
    """The number of the operation of the language that a node belongs to, or -1; and the phase."""
    found = _NUMBER.findall(node.name)
    if node.name.startswith(f"{Phase.UPDATE}/"):
        phase = Phase.UPDATE
    else:
        is_backward = BACKWARD_NAME in node.name or node.type == "AddN"
        phase = Phase.BACKWARD if is_backward else Phase.FORWARD
    return int(found[-1]) if found else -1, phase


def named(phase: Phase, number: int) -> str:
    """A name that has this key."""
    first = {Phase.UPDATE: f"{Phase.UPDATE}/", Phase.BACKWARD: f"{BACKWARD_NAME}/"}.get(phase, "")
    return f"{first}copy.{number}/"
