"""The checkpoint that a run begins with: fine-tuning, and whatever else does not begin at random.

A run that has a checkpoint of its own goes on with that; this is for its first beginning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mtf_models.checkpoint import SLOTS
from mtf_models.checkpoint.names import GLOBAL_STEP, is_slot, step_of
from mtf_models.checkpoint.restore import restore
from mtf_models.checkpoint.source import Source
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Dimension, Shape, Variable
from mtf_models.optimize.optimizer import Optimizer
from mtf_models.runtime.bindings.initial_names import matched
from mtf_models.runtime.bindings.settings import RunSettings
from mtf_models.runtime.bindings.variable_filter import VariableFilter
from mtf_models.runtime.folder.model_folder import ModelFolder, model_folder
from mtf_models.runtime.training.trainer import Trainer


class InitialCheckpoint(NamedTuple):
    """One checkpoint of another run, or the values of a folder of Hugging Face's.

    Attributes:
        folder: that it is in.
        reader: of its values.
        step: of the checkpoint.
    """

    folder: ModelFolder
    reader: Source
    step: int

    @property
    def prefix(self) -> Path:
        """Its path without endings."""
        return self.reader.prefix

    @classmethod
    def find(cls, path: str | Path, step: int | None = None) -> InitialCheckpoint:
        """The checkpoint that a path means.

        Args:
            path: see `model_folder`.
            step: which one of a folder; None for the latest.

        Raises:
            CheckpointError: if there is no such checkpoint.
        """
        if "://" in str(path):
            raise CheckpointError(
                f"The checkpoint {path} is not on this machine: copy its files here, and give "
                "their folder."
            )
        folder = model_folder(path)
        reader = folder.checkpoint(step)
        found = step_of(reader.prefix.name)
        return cls(folder, reader, reader.step if found is None else found)


@dataclass(frozen=True)
class Beginning:
    """What a run took from its initial checkpoint.

    Attributes:
        prefix: of the checkpoint.
        step: of the checkpoint.
        new: the model's variables that were not taken from it.
        slots_of: how many variables got the optimizer's slots from it.
    """

    prefix: Path
    step: int
    new: list[str]
    slots_of: int


def begin(trainer: Trainer, source: InitialCheckpoint) -> Beginning:
    """Gives a trainer the values of a checkpoint, as `run.init_*` say, and the step to begin at.

    Raises:
        CheckpointError: if the two do not fit each other; nothing is assigned then.
    """
    settings = trainer.model.settings
    reader = source.reader
    asked_for = [n for n in reader.names if re.search(settings.init_variable_filter, n)]
    with trainer.model.config.active():
        sources, skipped = matched(trainer.variables, asked_for)
    weights = trainer.model.variables
    new = [name for name in weights if name not in sources]
    if len(new) == len(weights):
        raise CheckpointError(
            f"Nothing of the model is in {source.prefix}: take the config that it was made with."
        )
    slots = _slots_to_take(trainer, sources)
    restore(
        reader,
        {**weights, **slots},
        allow_missing=[*skipped, *(name for name in new if _may_be_new(settings, name))],
        allow_left_over=[*SLOTS, *set(reader.names).difference(asked_for)],
        allow_partial=not settings.init_strict,
        sources=sources,
    )
    counts_on = settings.init_steps == "checkpoint" and GLOBAL_STEP in asked_for
    trainer.step_number = source.step if counts_on else 0
    owners = [n for n, some in trainer.slots.items() if some and some[0].name in slots]
    return Beginning(source.prefix, source.step, new, len(owners))


def has_slots(reader: Source, optimizer: Optimizer, chosen_by: VariableFilter | None) -> bool:
    """Whether a checkpoint holds what this optimizer keeps of any variable to be trained.

    Args:
        reader: the checkpoint.
        optimizer: to train with.
        chosen_by: what is trained; see `run.variable_filter`.
    """
    names = set(reader.names)
    pattern = chosen_by if isinstance(chosen_by, str) else ""
    for name in reader.names:
        if not is_slot(name) and name != GLOBAL_STEP and re.search(pattern, name):
            sizes = enumerate(reader.shape(name))
            shape = Shape([Dimension(f"dimension_{i}", size) for i, size in sizes])
            kept = set(optimizer.slot_shapes(name, shape))
            if kept and kept <= names:
                return True
    return False


def _slots_to_take(trainer: Trainer, sources: Mapping[str, str]) -> dict[str, Variable]:
    """Those of variables of which the checkpoint has all."""
    if trainer.model.settings.init_optimizer == "fresh":
        return {}
    taken: dict[str, Variable] = {}
    for slots in trainer.slots.values():
        if all(slot.name in sources for slot in slots):
            taken |= {slot.name: slot for slot in slots}
    return taken


def _may_be_new(settings: RunSettings, name: str) -> bool:
    """Whether a variable that the checkpoint lacks is no error: named as trained, or not wanted."""
    chosen_by = settings.variable_filter
    named = isinstance(chosen_by, str) and re.search(chosen_by, name) is not None
    return named or re.search(settings.init_variable_filter, name) is None
