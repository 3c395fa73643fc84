"""A file of JSON lines that is written whole, and what is done of it until then."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mtf_models.errors import DataError


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
        self.rows: dict[int, Mapping[str, Any]] = {}
        check_writable(self.output)
        self._resume()

    @property
    def path(self) -> Path:
        """Where rows stand until all are there."""
        return self.output.with_name(f"{self.output.name}.partial")

    def add(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Adds rows at their places.

        Raises:
            DataError: if the file cannot be written.
        """
        self.rows.update(rows)
        begin = "" if self.path.exists() else _line({"request": self.request})
        text = begin + "".join(_line({"place": p, "row": row}) for p, row in rows.items())
        with _writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def finish(self) -> None:
        """Writes the output, rows in order.

        Raises:
            DataError: if it cannot be written; what was there stays.
        """
        aside = self.output.with_name(f".{self.output.name}.{os.getpid()}")
        text = "".join(_line(row) for _, row in sorted(self.rows.items()))
        try:
            with _writing(self.output):
                aside.write_text(text, encoding="utf-8")
                aside.replace(self.output)
        finally:
            aside.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _resume(self) -> None:
        """Takes the rows that an earlier run made, if it asked for the same."""
        if not self.path.exists():
            return
        text = self.path.read_text(encoding="utf-8")
        whole = text.split("\n")[:-1]  # The last line may be torn.
        found = [json.loads(line) for line in whole]
        if found and found[0].get("request") == self.request:
            self.rows = {entry["place"]: entry["row"] for entry in found[1:]}
            return
        raise DataError(
            f"{self.path} has the rows of another request (input, options or checkpoint differ): "
            "repeat that one, or delete the file."
        )


def check_writable(output: Path) -> None:
    """Refuses a path that no file can be written to.

    Raises:
        DataError: if it is a folder, or in none.
    """
    if output.is_dir():
        raise DataError(f"--output={output} is a folder: give the path of a file in it.")
    if not output.absolute().parent.is_dir():
        raise DataError(f"There is no folder for --output={output}: make it, or give another path.")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}. Give another --output."
        ) from error
