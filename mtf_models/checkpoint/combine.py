"""Several checkpoints made into one, variable by variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_models.checkpoint.bundle import Entry
from mtf_models.checkpoint.names import GLOBAL_STEP, is_slot
from mtf_models.checkpoint.reader import Reader
from mtf_models.errors import CheckpointError
from mtf_models.mesh.engines.single import Slice

Combination = Callable[[str, Sequence[Reader]], np.ndarray]
"""Takes the name of a variable and checkpoints that have it; returns one value."""


def average(name: str, readers: Sequence[Reader]) -> np.ndarray:
    """The mean over the checkpoints, summed in float64, in the widest dtype that they have.

    Whole numbers must be equal in all.
    """
    first = readers[0].read(name)
    if not readers[0].dtype(name).is_floating:
        return _equal(name, first, readers)
    total = first.astype(np.float64)
    for reader in readers[1:]:
        total += reader.read(name)
    total /= len(readers)
    return total.astype(_widest(name, readers).as_numpy_dtype)


def stack(name: str, readers: Sequence[Reader]) -> np.ndarray:
    """The values side by side along a new first axis: the members of an ensemble."""
    return np.stack([reader.read(name) for reader in readers])


def first(name: str, readers: Sequence[Reader]) -> np.ndarray:
    """The first entry along the first axis: one member of an ensemble.

    An output kernel that all members have in common is taken as it is.
    """
    value = readers[0].read(name)
    return value if _is_common(name, value.shape) else value[0]


def copy(name: str, readers: Sequence[Reader]) -> np.ndarray:
    """The value as it is."""
    return readers[0].read(name)


def combined(
    readers: Sequence[Reader],
    combination: Combination,
    step: int,
    dtype: tf.DType | None = None,
    keep_slots: bool = False,
) -> list[Entry]:
    """What to write: each variable is read when its turn comes.

    Args:
        readers: the checkpoints, at least one.
        combination: what becomes of a variable.
        step: `global_step` of the result.
        dtype: of floating variables, slots left out; by default the widest that they have.
        keep_slots: whether the slots of optimizers take part; else they are left out.

    Raises:
        CheckpointError: listing the variables that are not in all checkpoints in one shape, have no
            first axis to take an entry of, or hold text.
    """
    shapes = [_shapes(reader, keep_slots) for reader in readers]
    _check_alike(readers, shapes)
    names = list(shapes[0])
    texts = [name for name in names if readers[0].dtype(name) == tf.string]
    if texts:
        raise CheckpointError(
            f"{readers[0].prefix} is of tf.train.Checkpoint, and not by Mesh TensorFlow's names: "
            f"it holds text, {', '.join(texts)}. Give a checkpoint of a run of this package or of "
            "the original."
        )
    if combination is first:
        _check_members(readers[0], names)
    entries = [Entry(GLOBAL_STEP, (), tf.int64, [((), np.array(step, np.int64))])]
    for name in names:
        shape = readers[0].shape(name)
        if combination is stack:
            shape = (len(readers), *shape)
        elif combination is first and not _is_common(name, shape):
            shape = shape[1:]
        kept = _widest(name, readers)
        if dtype is not None and kept.is_floating and not is_slot(name):
            kept = dtype
        entries.append(Entry(name, shape, kept, _lazily(name, readers, combination)))
    return entries


def _lazily(name: str, readers: Sequence[Reader], combination: Combination) -> Iterator[Slice]:
    value = combination(name, readers)
    yield (0,) * value.ndim, value


def _widest(name: str, readers: Sequence[Reader]) -> tf.DType:
    found = {reader.dtype(name) for reader in readers}
    return found.pop() if len(found) == 1 else max(found, key=lambda dtype: dtype.size)


def _shapes(reader: Reader, keep_slots: bool) -> dict[str, tuple[int, ...]]:
    """The variables that take part, by name."""
    names = [n for n in reader.names if n != GLOBAL_STEP and (keep_slots or not is_slot(n))]
    return {name: reader.shape(name) for name in names}


def _check_alike(
    readers: Sequence[Reader], shapes: Sequence[Mapping[str, tuple[int, ...]]]
) -> None:
    """Refuses checkpoints of different models, with all that differs."""
    ours = shapes[0]
    faults = []
    for reader, theirs in zip(readers[1:], shapes[1:], strict=True):
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                pair = [list(s[name]) if name in s else "missing" for s in (ours, theirs)]
                faults.append(
                    f"  {name}: {pair[0]} in {readers[0].prefix}, {pair[1]} in {reader.prefix}"
                )
    if faults:
        raise CheckpointError(
            "The checkpoints are not of one model:\n"
            + "\n".join(faults)
            + "\nGive checkpoints of equal configs."
        )


def _check_members(reader: Reader, names: Sequence[str]) -> None:
    """Refuses what is no ensemble: a first axis that is not the same number everywhere."""
    shapes = {name: reader.shape(name) for name in names}
    sizes = {n: shape[:1] for n, shape in shapes.items() if not _is_common(n, shape)}
    if len(set(sizes.values())) != 1 or () in sizes.values():
        shown = ", ".join(f"{name} {list(reader.shape(name))}" for name in names[:4])
        raise CheckpointError(
            f"{reader.prefix} is no ensemble: in one, the first axis of every variable counts the "
            f"members. It has {shown}, ... Give a checkpoint of a run with Unitransformer.ensemble."
        )


def _is_common(name: str, shape: Sequence[int]) -> bool:
    return name.endswith("logits/kernel") and len(shape) == 2


def _equal(name: str, value: np.ndarray, readers: Sequence[Reader]) -> np.ndarray:
    for reader in readers[1:]:
        if not np.array_equal(value, reader.read(name)):
            raise CheckpointError(
                f"Variable {name} holds whole numbers that differ between {readers[0].prefix} and "
                f"{reader.prefix}, and they have no mean. Give checkpoints that agree in it."
            )
    return value
