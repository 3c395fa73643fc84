"""Which checkpoints a mode uses, as `run.eval_checkpoint_step` says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mtf_models.checkpoint import CheckpointManager
from mtf_models.errors import CheckpointError, ConfigError

CheckpointSteps = int | str | Sequence[int] | None
"""A step, several, "all", -1 for the latest, or None for each one as it comes."""

_SECONDS_BETWEEN_LOOKS = 10


def steps_of(
    folder: Path,
    wanted: CheckpointSteps,
    watches: bool = False,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """The checkpoints to use, in order; those that are not there are refused at once.

    Args:
        folder: the run folder.
        wanted: see `CheckpointSteps`.
        watches: whether None means each checkpoint as it comes, without end; else the latest.
        wait: called between two looks for new checkpoints.

    Returns:
        Their steps.

    Raises:
        CheckpointError: if there are none, or some of those asked for are not there.
        ConfigError: if `wanted` is something else.
    """
    manager = CheckpointManager(folder)
    if wanted is None and watches:
        return _coming(manager, wait)
    latest = manager.chosen(None)
    if wanted == "all":
        return iter(manager.steps())
    if wanted in (None, -1):
        return iter([latest])
    steps = [wanted] if isinstance(wanted, int) else wanted
    if not isinstance(steps, list | tuple) or not all(type(step) is int for step in steps):
        raise ConfigError(
            f'run.eval_checkpoint_step is {wanted!r}; it can be a step, a list of steps, "all", '
            "-1 for the latest, or None."
        )
    there = manager.steps()
    missing = [str(step) for step in steps if step not in there and step != -1]
    if missing:
        raise CheckpointError(
            f"{folder} has no checkpoint of step {', '.join(missing)}; there are steps "
            f"{', '.join(map(str, there))}."
        )
    return iter([latest if step == -1 else step for step in steps])


def _coming(manager: CheckpointManager, wait: Callable[[float], None]) -> Iterator[int]:
    used: set[int] = set()
    while True:
        # Looked for anew each time: training may have removed one while the last was used.
        new = next((step for step in manager.steps() if step not in used), None)
        if new is None:
            wait(_SECONDS_BETWEEN_LOOKS)
        else:
            used.add(new)
            yield new
