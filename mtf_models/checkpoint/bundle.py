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

from mtf_models import processes
from mtf_models.checkpoint.casts import Casts
from mtf_models.checkpoint.publish import aside, publish, remove_dead
from mtf_models.checkpoint.reader import slice_spec
from mtf_models.errors import CheckpointError
from mtf_models.mesh.engines.single import Slice

# A data file takes this much, or more where there would be too many files.
_SHARD_BYTES = 2**26
_MOST_SHARDS = 64

Box = tuple[Sequence[int], Sequence[int]]
"""Where a slice begins, and its sizes."""

_Saved = tuple[Mapping[str, list[Box]], Sequence[str]]
"""By name the boxes that a process saved, and its parts of the checkpoint."""


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

    Of several processes each calls this with the slices that it holds, and writes those; the first
    one merges and publishes them, once it is sure that they make up every variable. No more than
    the largest variable and one data file are held in memory at a time.

    Args:
        prefix: its path without endings, such as "runs/a/model.ckpt-1000".
        entries: the variables.
        side_files: file name -> text of small files that are published with it: those of the
            checkpoint itself before its index, the folder's state file after.

    Raises:
        CheckpointError: if the slices of a variable do not cover it exactly once, a value does not
            fit its dtype, or the files cannot be written.
        ProcessError: if it fails in another process.
    """
    prefix = Path(prefix)
    entries = list(entries)
    twice = [name for name, count in Counter(e.name for e in entries).items() if count > 1]
    if twice:
        raise CheckpointError(f"Variables given twice for {prefix}: {', '.join(twice)}.")
    needed = sum(entry.byte_count for entry in entries)
    casts = Casts()
    group = processes.current()
    with _explaining(prefix, needed), _shared_folder(prefix.parent, needed) as temporary:

        def save_slices() -> _Saved:
            shards = _Shards(temporary, max(_SHARD_BYTES, needed // _MOST_SHARDS), casts)
            for entry in entries:
                shards.add(entry)
            return shards.finish()

        saved = group.together("saving slices", save_slices)

        def merge_slices() -> None:
            if not group.leads:
                return
            _check_cover(entries, [boxes for boxes, _ in saved])
            for name, text in (side_files or {}).items():
                (temporary / name).write_text(text, encoding="utf-8")
            tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=[str(temporary / part) for _, parts in saved for part in parts],
                destination_prefix=str(temporary / prefix.name),
                delete_old_dirs=False,
            )
            publish(temporary, prefix)

        group.together("merging slices", merge_slices)
    casts.report()


@contextlib.contextmanager
def _shared_folder(folder: Path, needed: int) -> Iterator[Path]:
    """A temporary folder inside `folder`, for all processes the same one."""
    group = processes.current()
    with contextlib.ExitStack() as stack:

        def make() -> str | None:
            if not group.leads:
                return None
            remove_dead(folder)
            if _free_bytes(folder) < needed:
                raise OSError("no space left on the disk")
            return stack.enter_context(aside(folder)).name

        temporary = folder / group.together("making a folder", make)[0]

        def find() -> None:
            if not temporary.is_dir():
                raise CheckpointError(
                    f"{folder} is not the same folder for all processes: it lacks what the first "
                    "one just wrote there. Take a --model_dir on a disk that they share."
                )

        group.together("finding the folder", find)
        yield temporary


class _Shards:
    """Collects variables and saves each time that `limit` bytes have come together."""

    def __init__(self, folder: Path, limit: int, casts: Casts) -> None:
        self._folder = folder
        self._limit = limit
        self._casts = casts
        self._parts: list[tuple[str, str, np.ndarray]] = []
        self._bytes = 0
        self._boxes: dict[str, list[Box]] = {}
        self._saved: list[str] = []

    def add(self, entry: Entry) -> None:
        boxes = self._boxes[entry.name] = []
        for begin, part in entry.slices:
            boxes.append((list(begin), list(part.shape)))
            if boxes[-1] in boxes[:-1]:
                continue  # TensorFlow takes none twice; the check of the cover will tell.
            part = self._casts.apply(entry.name, part, entry.dtype)
            self._parts.append((entry.name, slice_spec(entry.sizes, begin, part.shape), part))
            self._bytes += part.nbytes
        if self._bytes >= self._limit:
            self._save()

    def finish(self) -> _Saved:
        self._save()
        return self._boxes, self._saved

    def _save(self) -> None:
        if not self._parts:
            return
        names, specs, values = zip(*self._parts, strict=True)
        part = f"part-{processes.current().index}-{len(self._saved)}"
        with tf.device("CPU:0"):
            tf.raw_ops.SaveV2(
                prefix=str(self._folder / part),
                tensor_names=names,
                shape_and_slices=specs,
                tensors=values,
            )
        self._saved.append(part)
        self._parts, self._bytes = [], 0


def _check_cover(entries: Iterable[Entry], boxes: Sequence[Mapping[str, list[Box]]]) -> None:
    """Refuses slices that leave a part out, overlap, or stick out: merging would not notice.

    Args:
        entries: the variables.
        boxes: of each process, those that it saved of each variable.
    """
    faults = [_cover_fault(e, [b for saved in boxes for b in saved[e.name]]) for e in entries]
    found = [fault for fault in faults if fault is not None]
    if found:
        raise CheckpointError(f"{' '.join(found)} Give each element to one slice.")


def _cover_fault(entry: Entry, boxes: list[Box]) -> str | None:
    begins = np.array([b for b, _ in boxes], np.int64).reshape(len(boxes), len(entry.sizes))
    sizes = np.array([s for _, s in boxes], np.int64).reshape(begins.shape)
    ends = begins + sizes
    first, last = np.expand_dims(begins, 1), np.expand_dims(ends, 1)
    overlap = np.all((first < ends) & (begins < last), axis=-1)
    inside = np.all(begins >= 0) and np.all(ends <= np.array(entry.sizes, np.int64))
    missing = int(np.prod(entry.sizes)) - int(np.prod(sizes, axis=-1).sum())
    if not boxes or missing or not inside or overlap.sum() > len(boxes):
        shown = ", ".join(f"{list(size)} at {list(begin)}" for begin, size in boxes)
        return (
            f"The slices of variable {entry.name} {list(entry.sizes)} do not cover it exactly "
            f"once: {shown or 'none'}."
        )
    return None


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
