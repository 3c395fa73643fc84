"""What a run measures, on disk: `metrics.jsonl` and TensorBoard events."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import tensorflow as tf

from mtf_models import processes
from mtf_models.errors import CheckpointError

METRICS_FILE = "metrics.jsonl"

_log = logging.getLogger("mtf_models")


class MetricsWriter:
    """Appends rows to `metrics.jsonl` and scalars to TensorBoard events of a run folder.

    Of several processes the first one does; the others write nothing.

    Args:
        folder: the run folder.
        after: rows of later steps are dropped: they belong to work that a resumed run does again.

    Raises:
        CheckpointError: here and in every method, if the folder cannot be written.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        self._file = folder / METRICS_FILE
        self._events = tf.summary.create_noop_writer()
        self._writes = processes.current().leads
        if not self._writes:
            return
        with self._explaining():
            if self._file.exists():
                self._end_last_line() if after is None else self._drop_after(after)
            self._events = tf.summary.create_file_writer(str(folder))

    def write(self, step: int, values: Mapping[str, float], tag: str) -> None:
        """Adds one row, and each value as a scalar `tag/name`.

        Args:
            step: the number of steps made.
            values: by name; what is not finite is null in the row, which JSON has no number for.
            tag: of the scalars, such as "train" or "eval".
        """
        if not self._writes:
            return
        finite = {n: float(v) if math.isfinite(v) else None for n, v in values.items()}
        with self._explaining():
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **finite}) + "\n")
            with self._events.as_default(step=step), tf.device("CPU:0"):
                for name, value in values.items():
                    tf.summary.scalar(f"{tag}/{name}", value)

    def flush(self) -> None:
        """Brings the events to the disk."""
        with self._explaining():
            self._events.flush()

    def close(self) -> None:
        """Brings everything to the disk; nothing can be written any more."""
        with self._explaining():
            self._events.close()

    def _end_last_line(self) -> None:
        """Begins a new line after one that a killed process left without its end."""
        with self._file.open("rb+") as file:
            if not file.seek(0, os.SEEK_END):
                return
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                file.write(b"\n")

    def _drop_after(self, last: int) -> None:
        """Drops the rows of later steps, and those that cannot be read."""
        rows = self._file.read_bytes().splitlines(keepends=True)
        steps = [_step_of(row) for row in rows]
        torn = [number for number, step in enumerate(steps, start=1) if step is None]
        if torn:
            shown = ", ".join(map(str, torn[:5])) + (", ..." if len(torn) > 5 else "")
            _log.warning("Dropped damaged lines of %s: %s.", self._file, shown)
        kept = [r for r, s in zip(rows, steps, strict=True) if s is not None and s <= last]
        if kept != rows:
            aside = self._file.with_suffix(".tmp")
            aside.write_bytes(b"".join(kept))
            aside.replace(self._file)

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.message
            raise CheckpointError(
                f"Cannot write what was measured to {self._file.parent}: {reason}. Make room, or "
                "take a folder that can be written. Checkpoints are as they were."
            ) from error


def _step_of(row: bytes) -> int | None:
    """The step of a row; None if it is damaged or its end is missing."""
    try:
        step = json.loads(row)["step"]
    except (ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) and row.endswith(b"\n") else None
