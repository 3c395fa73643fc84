"""Recording what a model computes, holds and communicates, without a device."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from mtf_models.errors import DataError
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.recording.record import Recording, argument, recorded
from mtf_models.mesh.recording.regions import PartsDiffer
from mtf_models.optimize.optimizer import Optimizer
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.training.trainer import Trainer


def record_step(
    model: Model,
    batch_size: int,
    sequence_length: int | Mapping[str, int] | None = None,
    optimizer: Optimizer | None = None,
) -> Recording:
    """Records a whole training step: loss, gradients and update. Nothing is allocated.

    Args:
        model: of which no variable need have a value.
        batch_size: the number of sequences on all devices together.
        sequence_length: of every feature, or of each by name; None for the config's.
        optimizer: None for what the config binds, else Adafactor.

    Raises:
        DataError: if a length is missing.
        LayoutError: if the batch does not fit the mesh.
    """
    try:
        return _recorded(model, batch_size, sequence_length, optimizer, abridges=True)
    except PartsDiffer:
        return _recorded(model, batch_size, sequence_length, optimizer, abridges=False)


def _recorded(
    model: Model,
    batch_size: int,
    sequence_length: int | Mapping[str, int] | None,
    optimizer: Optimizer | None,
    abridges: bool,
) -> Recording:
    mesh = model.mesh.abstract(notes=True, abridges=abridges)
    there = model.on_mesh(mesh)
    lengths = _lengths(there, sequence_length)

    def program() -> list[Tensor]:
        trainer = Trainer(there, optimizer)
        inputs = {}
        for name, length in lengths.items():
            shape = Shape([Dimension("batch", batch_size), Dimension("length", length)])
            inputs[name] = argument(mesh, name, shape, tf.int32)
        for name in trainer.rate_names:
            inputs[name] = argument(mesh, name, Shape(), tf.float32)
        inputs["step"] = argument(mesh, "step", Shape(), tf.int32)
        return list(trainer.compute_step(inputs).values())

    return recorded(mesh, program)


def _lengths(model: Model, given: int | Mapping[str, int] | None) -> dict[str, int]:
    lengths = dict(model.settings.sequence_length)
    if isinstance(given, int):
        lengths = dict.fromkeys(model.network.feature_names, given)
    elif given is not None:
        missing = [name for name in model.network.feature_names if name not in given]
        if missing:
            raise DataError(f"The length of {', '.join(missing)} is not given; name them all.")
        lengths = dict(given)
    return model.network.lengths(lengths)
