"""The checkpoints of one run folder."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_models import processes
from mtf_models.checkpoint import bundle
from mtf_models.checkpoint.hugging_face import convert_first
from mtf_models.checkpoint.names import (
    EXTRA_SUFFIX,
    GLOBAL_STEP,
    STATE_FILE,
    files_of,
    pickles_in,
    prefix_of,
    steps_in,
)
from mtf_models.checkpoint.reader import find_faults
from mtf_models.checkpoint.restore import restore
from mtf_models.checkpoint.state import named_step, state_text
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Variable
from mtf_models.mesh.engines.single import Slice

_log = logging.getLogger("mtf_models")


class CheckpointManager:
    """Saves, finds and restores the checkpoints `model.ckpt-N` of a folder.

    Folders of the original are read as they are. A torn checkpoint is never taken for a good one:
    it is left in place and reported once.

    Args:
        folder: the run folder; made by the first save.
        keep: how many of the checkpoints that it wrote to keep, the latest; None keeps all.

    Raises:
        CheckpointError: if `keep` is less than 1.
    """

    def __init__(self, folder: str | Path, keep: int | None = None) -> None:
        if keep is not None and keep < 1:
            raise CheckpointError(f"Cannot keep {keep} checkpoints; keep at least 1, or all.")
        self.folder = Path(folder)
        self.keep = keep
        self._torn: dict[int, str] = {}
        self._replaces_from: int | None = None

    def prefix(self, step: int) -> Path:
        """The path of the checkpoint of `step` without endings."""
        return prefix_of(self.folder, step)

    def steps(self) -> list[int]:
        """The steps of the complete checkpoints, in order."""
        complete = []
        for step in steps_in(self.folder):
            faults = find_faults(self.prefix(step))
            if not faults:
                complete.append(step)
            elif step not in self._torn:
                self._torn[step] = "; ".join(faults)
                _log.warning("Ignored torn checkpoint %s: %s.", self.prefix(step), self._torn[step])
        return complete

    def torn(self) -> list[tuple[Path, str]]:
        """The torn checkpoints that were met so far, each with what is wrong."""
        return [(self.prefix(step), fault) for step, fault in sorted(self._torn.items())]

    def latest(self) -> int | None:
        """The step that the folder's state file names, else the last complete one, if any."""
        steps = self.steps()
        if not steps:
            return None
        named = named_step(self.folder)
        taken = named if named in steps else steps[-1]
        if named not in (None, steps[-1], *self._torn):
            _log.warning(
                "%s names step %d; complete are %s; taking step %d.",
                self.folder / STATE_FILE,
                named,
                steps,
                taken,
            )
        return taken

    def chosen(self, step: int | None) -> int:
        """The step asked for, or the latest.

        Raises:
            CheckpointError: if there is no such complete checkpoint, listing what is there.
        """
        steps = self.steps()
        if step is None and steps:
            return self.latest()
        if step in steps:
            return step
        wanted = "no checkpoint" if step is None else f"no checkpoint of step {step}"
        there = f"there are steps {', '.join(map(str, steps))}" if steps else "there is none"
        torn = "".join(f"; torn is {prefix.name}: {fault}" for prefix, fault in self.torn())
        pickles = pickles_in(self.folder)
        others = f". Pickled files are never read: {', '.join(pickles)}" if pickles else ""
        raise CheckpointError(
            f"{self.folder} has {wanted}; {there}{torn}{others}.{convert_first(self.folder)}"
        )

    def save(
        self, step: int, variables: Mapping[str, Variable], extra: Mapping[str, Any] | None = None
    ) -> Path:
        """Writes a checkpoint, or nothing; then removes old ones beyond `keep`.

        Only checkpoints that this class wrote are ever removed, and none later than `step`.

        Args:
            step: the number of steps taken; stored as `global_step`.
            variables: name in the checkpoint -> variable; written in its master dtype.
            extra: what else the run needs to go on, as JSON can hold it.

        Returns:
            The path of the checkpoint without endings.

        Raises:
            CheckpointError: if the step was saved by another run, or the disk refuses.
        """
        complete = self.steps()
        self._check_new(step, complete)
        entries = [*_entries(step, variables)]
        ours = [s for s in complete if s < step and self._extra_file(s).exists()]
        old = ours[: max(0, len(ours) + 1 - self.keep)] if self.keep else []
        kept = sorted({*complete, step}.difference(old))
        side_files = {
            self._extra_file(step).name: json.dumps(dict(extra or {}), indent=1),
            STATE_FILE: state_text(step, kept),
        }
        bundle.write(self.prefix(step), entries, side_files)
        if self._replaces_from is None or step < self._replaces_from:
            self._replaces_from = step
        if processes.current().leads:
            for removed in old:
                self._remove(removed)
        return self.prefix(step)

    def restore(
        self,
        step: int,
        variables: Mapping[str, Variable],
        allow_missing: Iterable[str] = (),
        allow_left_over: Iterable[str] = (),
        allow_partial: bool = False,
        sources: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Assigns the values of a checkpoint, whatever mesh, layout and dtype they are kept in.

        Args:
            step: one of `steps()`.
            variables: name in the model -> variable.
            allow_missing: patterns of names that the checkpoint may lack; they keep their values.
            allow_left_over: patterns of names that may be in the checkpoint only (`SLOTS`).
            allow_partial: whether anything may be missing or left over; it is listed then.
            sources: name in the model -> name in the checkpoint; see `fit.fitted`.

        Returns:
            What was saved as `extra`; empty for a checkpoint of the original.

        Raises:
            CheckpointError: if there is no such complete checkpoint; listing all that is missing,
                left over or of another shape; or all data that are damaged or do not fit their
                dtype. Nothing is assigned then.
        """
        faults = find_faults(self.prefix(step))
        if faults:
            steps = ", ".join(map(str, self.steps())) or "none"
            raise CheckpointError(
                f"Cannot restore {self.prefix(step)}: {'; '.join(faults)}. Complete steps there: "
                f"{steps}."
            )
        extra = self._read_extra(step)
        restore(
            self.prefix(step), variables, allow_missing, allow_left_over, allow_partial, sources
        )
        self._replaces_from = step + 1
        return extra

    def _check_new(self, step: int, complete: list[int]) -> None:
        """A run may replace its own, and what lies after the step that it went on from."""
        if step not in complete:
            return
        if self._replaces_from is None or step < self._replaces_from:
            raise CheckpointError(
                f"{self.prefix(step)} exists and was not written by this run; it stays as it is. "
                "Take another step first, or save in another folder."
            )
        _log.warning("Replacing %s.", self.prefix(step))

    def _remove(self, step: int) -> None:
        try:
            for file in files_of(self.prefix(step)):
                file.unlink()
        except OSError as error:
            _log.warning("Could not remove old checkpoint %s: %s.", self.prefix(step), error)

    def _extra_file(self, step: int) -> Path:
        return self.folder / f"{self.prefix(step).name}{EXTRA_SUFFIX}"

    def _read_extra(self, step: int) -> dict[str, Any]:
        file = self._extra_file(step)
        if not file.exists():
            return {}
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"Cannot read {file}: {error}. Take another checkpoint; or remove the file, and "
                "the run goes on without what it says (the position in the data)."
            ) from error


def _entries(step: int, variables: Mapping[str, Variable]) -> Iterator[bundle.Entry]:
    counted = variables.get(GLOBAL_STEP)
    if counted is None:
        slices = [((), np.array(step, np.int64))] if processes.current().leads else []
        yield bundle.Entry(GLOBAL_STEP, (), tf.int64, slices)
    elif int(counted.numpy()) != step:
        raise CheckpointError(
            f"Variable {GLOBAL_STEP} is {int(counted.numpy())} and step {step} is to be saved; "
            "they must be equal."
        )
    for turn, (name, variable) in enumerate(variables.items()):
        dtype = tf.int64 if name == GLOBAL_STEP else variable.spec.dtype.master
        sizes = variable.shape.to_integer_list
        yield bundle.Entry(name, sizes, dtype, _slices(variable, turn))


def _slices(variable: Variable, turn: int) -> Iterator[Slice]:
    """The parts of a variable that this process writes: in turn, so that all have as much to do."""
    value = variable.value
    yield from value.mesh.engine.slices(value.value, variable.layout, turn)
