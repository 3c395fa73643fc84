"""Rows of JSON that come batch by batch: into a file that is written whole, or printed."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mtf_models.errors import DataError
from mtf_models.runtime.using.interruptible import interruptible
from mtf_models.runtime.whole_file import check_output, write_text, writing

_CURE = "Give another --output."

_NOTICE = "Stopping after this batch. Once more stops at once."

Rows = dict[int, Mapping[str, Any]]


class PartialOutput:
    """Rows of an output, by their places, as they are made.

    They stand in a file beside the output until all are there; a run that asks for the same goes
    on with it.

    Args:
        output: the file to write at the end.
        request: what is asked for, in a form that equals itself in another run.

    Attributes:
        rows: place to row, of those that are made.
    """

    def __init__(self, output: str | Path, request: str) -> None:
        self.output = Path(output)
        self.request = request
        self.rows: Rows = {}
        check_output(self.output)
        self._resume()

    @property
    def path(self) -> Path:
        """Where rows stand until all are there."""
        return self.output.with_name(f"{self.output.name}.partial")

    def add(self, rows: Rows) -> None:
        """Adds rows at their places.

        Raises:
            DataError: if the file cannot be written.
        """
        self.rows.update(rows)
        begin = "" if self.path.exists() else _line({"request": self.request})
        text = begin + "".join(_line({"place": p, "row": row}) for p, row in rows.items())
        with writing(self.path, cure=_CURE), self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def finish(self) -> None:
        """Writes the output, rows in order.

        Raises:
            DataError: if it cannot be written; what was there stays.
        """
        write_text(self.output, _lines(self.rows), cure=_CURE)
        self.path.unlink(missing_ok=True)

    def leave(self, count: int) -> None:
        """Says what is done of so many rows where they are left before their end."""
        print(
            f"{len(self.rows)} of {count} are in {self.path}; the same command goes on with them."
        )

    def _resume(self) -> None:
        """Takes the rows that an earlier run made, if it asked for the same."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        # A run that was killed, or found no room, leaves a line torn, and it may be the first one.
        whole = content[: content.rfind(b"\n") + 1]
        if not whole:
            self.path.unlink()
            return
        found = [json.loads(line) for line in whole.decode("utf-8").split("\n")[:-1]]
        if found[0].get("request") == self.request:
            self.rows = {entry["place"]: entry["row"] for entry in found[1:]}
            with writing(self.path, cure=_CURE):
                os.truncate(self.path, len(whole))
            return
        raise DataError(
            f"{self.path} has the rows of another request (input, options or checkpoint differ): "
            "repeat that one, or delete the file."
        )


class PrintedOutput:
    """Rows that go to standard output together, in the order of their places.

    Attributes:
        rows: place to row, of those that are made.
    """

    def __init__(self) -> None:
        self.rows: Rows = {}

    def add(self, rows: Rows) -> None:
        """Adds rows at their places."""
        self.rows.update(rows)

    def finish(self) -> None:
        """Prints the rows."""
        print(_lines(self.rows), end="", flush=True)

    def leave(self, count: int) -> None:
        """Prints the rows that there are of so many, where they are left before their end."""
        self.finish()
        print(
            f"{len(self.rows)} of {count} were printed; with --output=FILE the same command could "
            "go on with the others.",
            file=sys.stderr,
        )


def fill(
    output: PartialOutput | PrintedOutput,
    count: int,
    batches: Callable[[Collection[int]], Iterable[Rows]],
) -> None:
    """Makes the rows that an output lacks.

    Args:
        output: where they go.
        count: how many there will be.
        batches: takes the places that are done, and makes the rows of the others.

    Raises:
        KeyboardInterrupt: after Ctrl-C, when the batch at work is done and it is said what is left.
    """
    if output.rows:
        print(f"Going on after {len(output.rows)} of {count}, from {output.path}.")

    def work(stop: threading.Event) -> None:
        for rows in batches(set(output.rows)):
            output.add(rows)
            if stop.is_set() and len(output.rows) < count:
                raise KeyboardInterrupt

    try:
        interruptible(work, _NOTICE)
    except KeyboardInterrupt:
        if output.rows:
            output.leave(count)
        raise


def _lines(rows: Rows) -> str:
    return "".join(_line(row) for _, row in sorted(rows.items()))


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
