"""Writing a checkpoint by name, in slices, variable by variable."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_models.checkpoint.casts import Casts
from mtf_models.checkpoint.publish import aside, publish, remove_dead
from mtf_models.checkpoint.reader import slice_spec
from mtf_models.errors import CheckpointError
from mtf_models.mesh.engines.single import Slice

# A data file takes this much, or more where there would be too many files.
_SHARD_BYTES = 2**26
_MOST_SHARDS = 64


class Entry(NamedTuple):
    """One variable to be written.

    Attributes:
        name: its name in the checkpoint.
        sizes: its whole shape.
        dtype: its dtype in the checkpoint; slices of another one are cast.
        slices: where each part begins, and its values; read once, when its turn comes.
    """

    name: str
    sizes: Sequence[int]
    dtype: tf.DType
    slices: Iterable[Slice]

    @property
    def byte_count(self) -> int:
        """What it takes in the file."""
        return int(np.prod(self.sizes)) * self.dtype.size


def write(
    prefix: str | Path, entries: Iterable[Entry], side_files: Mapping[str, str] | None = None
) -> None:
    """Writes a checkpoint, or nothing: other checkpoints of the folder stay as they are.

    No more than the largest variable and one data file are held in memory at a time.

    Args:
        prefix: its path without endings, such as "runs/a/model.ckpt-1000".
        entries: the variables.
        side_files: file name -> text of small files that are published with it: those of the
            checkpoint itself before its index, the folder's state file after.

    Raises:
        CheckpointError: if the slices of a variable do not cover it exactly once, a value does not
            fit its dtype, or the files cannot be written.
    """
    prefix = Path(prefix)
    entries = list(entries)
    twice = [name for name, count in Counter(e.name for e in entries).items() if count > 1]
    if twice:
        raise CheckpointError(f"Variables given twice for {prefix}: {', '.join(twice)}.")
    needed = sum(entry.byte_count for entry in entries)
    casts = Casts()
    with _explaining(prefix, needed):
        remove_dead(prefix.parent)
        if _free_bytes(prefix.parent) < needed:
            raise OSError("no space left on the disk")
        with aside(prefix.parent) as temporary:
            for name, text in (side_files or {}).items():
                (temporary / name).write_text(text, encoding="utf-8")
            shards = _Shards(temporary, max(_SHARD_BYTES, needed // _MOST_SHARDS), casts)
            for entry in entries:
                shards.add(entry)
            shards.merge(temporary / prefix.name)
            publish(temporary, prefix)
    casts.report()


class _Shards:
    """Collects variables and saves each time that `limit` bytes have come together."""

    def __init__(self, folder: Path, limit: int, casts: Casts) -> None:
        self._folder = folder
        self._limit = limit
        self._casts = casts
        self._parts: list[tuple[str, str, np.ndarray]] = []
        self._bytes = 0
        self._saved: list[str] = []

    def add(self, entry: Entry) -> None:
        boxes = []
        for begin, part in entry.slices:
            boxes.append((begin, part.shape))
            part = self._casts.apply(entry.name, part, entry.dtype)
            self._parts.append((entry.name, slice_spec(entry.sizes, begin, part.shape), part))
        _check_cover(entry, boxes)
        self._bytes += entry.byte_count
        if self._bytes >= self._limit:
            self._save()

    def merge(self, prefix: Path) -> None:
        self._save()
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=self._saved, destination_prefix=str(prefix), delete_old_dirs=False
        )

    def _save(self) -> None:
        if not self._parts:
            return
        names, specs, values = zip(*self._parts, strict=True)
        prefix = str(self._folder / f"part-{len(self._saved)}")
        with tf.device("CPU:0"):
            tf.raw_ops.SaveV2(
                prefix=prefix, tensor_names=names, shape_and_slices=specs, tensors=values
            )
        self._saved.append(prefix)
        self._parts, self._bytes = [], 0


def _check_cover(entry: Entry, boxes: list[tuple[Sequence[int], Sequence[int]]]) -> None:
    """Refuses slices that leave a part out, overlap, or stick out: merging would not notice."""
    begins = np.array([b for b, _ in boxes], np.int64).reshape(len(boxes), len(entry.sizes))
    sizes = np.array([s for _, s in boxes], np.int64).reshape(begins.shape)
    ends = begins + sizes
    first, last = np.expand_dims(begins, 1), np.expand_dims(ends, 1)
    overlap = np.all((first < ends) & (begins < last), axis=-1)
    inside = np.all(begins >= 0) and np.all(ends <= np.array(entry.sizes, np.int64))
    missing = int(np.prod(entry.sizes)) - int(np.prod(sizes, axis=-1).sum())
    if not boxes or missing or not inside or overlap.sum() > len(boxes):
        shown = ", ".join(f"{list(size)} at {list(begin)}" for begin, size in boxes)
        raise CheckpointError(
            f"The slices of variable {entry.name} {list(entry.sizes)} do not cover it exactly "
            f"once: {shown or 'none'}. Give each element to one slice."
        )


@contextlib.contextmanager
def _explaining(prefix: Path, needed: int) -> Iterator[None]:
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise CheckpointError(
            f"Cannot write checkpoint {prefix}: {_reason(error)}. It needs {needed:,} bytes; "
            f"{_free_bytes(prefix.parent):,} are free there. Make room, or take a folder that can "
            "be written. Earlier checkpoints are as they were."
        ) from error


def _reason(error: OSError | tf.errors.OpError) -> str:
    """The system's own words, without TensorFlow's about where it met them."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return re.sub(r"\s*\[Op:\w+\].*", "", error.message, flags=re.DOTALL).rpartition("; ")[2]


def _free_bytes(folder: Path) -> int:
    """The free bytes where `folder` is, or will be."""
    existing = next(path for path in [folder, *folder.absolute().parents] if path.exists())
    return shutil.disk_usage(existing).free
