"""What a run measures, on disk: `metrics.jsonl` and TensorBoard events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

METRICS_FILE = "metrics.jsonl"


class MetricsWriter:
    """Appends rows to `metrics.jsonl` and scalars to TensorBoard events of a run folder.

    Args:
        folder: the run folder.
        after: rows of later steps are dropped: they belong to work that a resumed run does again.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        self._file = folder / METRICS_FILE
        if after is not None:
            self._drop_after(after)
        self._events = tf.summary.create_file_writer(str(folder))

    def write(self, step: int, values: Mapping[str, float], tag: str) -> None:
        """Adds one row, and each value as a scalar `tag/name`.

        Args:
            step: the number of steps made.
            values: by name.
            tag: of the scalars, such as "train" or "eval".
        """
        row: dict[str, Any] = {"step": step, **values}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        with self._events.as_default(step=step), tf.device("CPU:0"):
            for name, value in values.items():
                tf.summary.scalar(f"{tag}/{name}", value)

    def flush(self) -> None:
        """Brings the events to the disk."""
        self._events.flush()

    def _drop_after(self, step: int) -> None:
        if not self._file.exists():
            return
        rows = self._file.read_text(encoding="utf-8").splitlines()
        kept = [row for row in rows if _step_of(row) <= step]
        if len(kept) < len(rows):
            aside = self._file.with_suffix(".tmp")
            aside.write_text("".join(f"{row}\n" for row in kept), encoding="utf-8")
            aside.replace(self._file)


def _step_of(row: str) -> float:
    """The step of a row; a row that a killed run left half written counts as later than any."""
    try:
        return json.loads(row)["step"]
    except (ValueError, KeyError, TypeError):
        return float("inf")
