"""Reading a checkpoint by name, and telling a complete one from a torn one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_models.checkpoint.names import GLOBAL_STEP, data_files_of, index_of
from mtf_models.errors import CheckpointError, did_you_mean

# What TensorFlow raises for damaged files: the reader in Python translates some of its statuses.
_READ_ERRORS = (tf.errors.OpError, OSError, IndexError, ValueError, RuntimeError)


class Reader:
    """The variables of one checkpoint; values are read when asked for.

    Args:
        prefix: a path such as "runs/a/model.ckpt-1000".

    Raises:
        CheckpointError: if its index is missing or damaged.
    """

    def __init__(self, prefix: str | Path) -> None:
        self.prefix = Path(prefix)
        if not index_of(self.prefix).is_file():
            raise CheckpointError(
                f"There is no checkpoint {self.prefix}: {index_of(self.prefix).name} is missing. "
                "Give a path without the ending, such as runs/a/model.ckpt-1000."
            )
        try:
            reader = tf.train.load_checkpoint(str(prefix))
        except _READ_ERRORS as error:
            raise self._damaged(error) from error
        shapes = reader.get_variable_to_shape_map()
        self._shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self._dtypes: dict[str, tf.DType] = reader.get_variable_to_dtype_map()

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._shapes)

    def __contains__(self, name: object) -> bool:
        return name in self._shapes

    @property
    def step(self) -> int:
        """The number of steps that it was taken after; 0 if it does not say."""
        return int(self.read(GLOBAL_STEP)) if GLOBAL_STEP in self else 0

    @property
    def byte_count(self) -> int:
        """How many bytes the data files must have at least; strings are not counted."""
        numeric = [name for name, dtype in self._dtypes.items() if dtype != tf.string]
        return sum(int(np.prod(self._shapes[n])) * self._dtypes[n].size for n in numeric)

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of a variable."""
        return self._shapes[self._known(name)]

    def dtype(self, name: str) -> tf.DType:
        """The dtype of a variable in the file."""
        return self._dtypes[self._known(name)]

    def read(self, name: str) -> np.ndarray:
        """A whole variable, in the dtype of the file.

        Raises:
            CheckpointError: if there is no such variable, or its data are damaged.
        """
        return self.tensor(name).numpy()

    def tensor(self, name: str) -> tf.Tensor:
        """A whole variable on the host, for whoever needs no array: it is in memory once.

        Raises:
            CheckpointError: if there is no such variable, or its data are damaged.
        """
        return self._restored(self._known(name), "")

    def read_slice(self, name: str, begin: Sequence[int], size: Sequence[int]) -> np.ndarray:
        """A box of a variable; the rest is not read.

        Args:
            name: the variable.
            begin: where the box begins, one number for each axis.
            size: the sizes of the box.

        Raises:
            CheckpointError: if there is no such variable, or its data are damaged.
        """
        return self._restored(name, slice_spec(self.shape(name), begin, size)).numpy()

    def _restored(self, name: str, spec: str) -> tf.Tensor:
        try:
            with tf.device("CPU:0"):
                (value,) = tf.raw_ops.RestoreV2(
                    prefix=str(self.prefix),
                    tensor_names=[name],
                    shape_and_slices=[spec],
                    dtypes=[self.dtype(name)],
                )
        except _READ_ERRORS as error:
            raise self._damaged(error, name) from error
        return value

    def _known(self, name: str) -> str:
        if name not in self._shapes:
            raise CheckpointError(
                f"Checkpoint {self.prefix} has no variable {name}{did_you_mean(name, self.names)}"
            )
        return name

    def _damaged(self, error: Exception, name: str = "its index") -> CheckpointError:
        return CheckpointError(
            f"Checkpoint {self.prefix} is damaged; {name} cannot be read: {error}. "
            "Take another checkpoint, or copy this one again from where it came from."
        )


def slice_spec(sizes: Sequence[int], begin: Sequence[int], size: Sequence[int]) -> str:
    """A box in TensorFlow's notation "8 4 0,4:2,2"; empty when it is the whole tensor."""
    if list(size) == list(sizes):
        return ""
    whole = " ".join(map(str, sizes))
    return f"{whole} {':'.join(f'{b},{n}' for b, n in zip(begin, size, strict=True))}"


def find_faults(prefix: Path) -> list[str]:
    """Why a checkpoint is torn: its index or data missing or too short; empty if it is complete."""
    if not index_of(prefix).is_file():
        return ["its index is missing"]
    try:
        needed = Reader(prefix).byte_count
    except CheckpointError:
        return ["its index is damaged"]
    faults = [_data_faults(needed, *found) for found in data_files_of(prefix).items()]
    if [] in faults:
        return []
    return faults[0] if faults else ["its data files are missing"]


def _data_faults(needed: int, shards: int, files: dict[int, Path]) -> list[str]:
    missing = sorted(set(range(shards)) - set(files))
    if missing:
        return [f"data file {shard:05d}-of-{shards:05d} is missing" for shard in missing]
    held = sum(file.stat().st_size for file in files.values())
    if held < needed:
        return [f"its data files have {held:,} bytes and the index speaks of {needed:,}"]
    return []
