"""Values from a checkpoint into variables, one at a time, and all of them or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_models.checkpoint.casts import Casts
from mtf_models.checkpoint.fit import fitted
from mtf_models.checkpoint.reader import Reader
from mtf_models.checkpoint.source import Source
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Variable


def restore(
    checkpoint: str | Path | Source,
    variables: Mapping[str, Variable],
    allow_missing: Iterable[str] = (),
    allow_left_over: Iterable[str] = (),
    allow_partial: bool = False,
    sources: Mapping[str, str] | None = None,
) -> None:
    """Assigns the values of a checkpoint, whatever mesh, layout and dtype they are kept in.

    Args:
        checkpoint: the prefix of a complete one, see `locate`, or the reader of one.
        variables: name in the model -> variable.
        allow_missing: patterns of names that the checkpoint may lack; they keep their values.
        allow_left_over: patterns of names that may be in the checkpoint only (`SLOTS`).
        allow_partial: whether anything may be missing or left over; it is listed then.
        sources: name in the model -> name in the checkpoint; see `fit.fitted`.

    Raises:
        CheckpointError: listing all that is missing, left over or of another shape; or all data
            that are damaged or do not fit their dtype. Nothing is assigned then.
    """
    reader = Reader(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    fit = fitted(reader, variables, allow_missing, allow_left_over, allow_partial, sources)
    _restore_values(reader, variables, fit)


def _restore_values(
    reader: Source, variables: Mapping[str, Variable], sources: Mapping[str, str]
) -> None:
    """Reads and assigns one variable after another; no more than one is held besides the model.

    Where variables have values already, all that is to be read is read once before the first is
    replaced.
    """
    casts = Casts()
    fresh = [name for name in sources if not variables[name].is_allocated]
    if len(fresh) < len(sources):
        _raise([fault for _, _, fault in _values(reader, variables, sources, casts) if fault])
    faults = []
    for name, value, fault in _values(reader, variables, sources, casts):
        if fault is not None:
            faults.append(fault)
        elif not faults:
            variables[name].assign(value)
    if faults:
        for name in fresh:
            variables[name].free()
    _raise(faults)
    casts.report()


def _values(
    reader: Source, variables: Mapping[str, Variable], sources: Mapping[str, str], casts: Casts
) -> Iterator[tuple[str, tf.Tensor | np.ndarray | None, str | None]]:
    """Name, value or None, fault or None of each variable."""
    for name, stored in sources.items():
        variable = variables[name]
        try:
            value = reader.tensor(stored)
            if value.dtype != variable.dtype:
                value = casts.apply(stored, value.numpy(), variable.dtype)
        except CheckpointError as error:
            yield name, None, str(error)
            continue
        sizes = variable.shape.to_integer_list
        if list(value.shape) != sizes:  # where members of an ensemble have one in common
            value = np.broadcast_to(value, sizes)
        yield name, value, None


def _raise(faults: list[str]) -> None:
    if faults:
        raise CheckpointError("\n".join([*faults, "Nothing was restored."]))
