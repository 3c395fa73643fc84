"""A file of JSON lines that is written whole, and what is done of it until then."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_models.errors import DataError
from mtf_models.runtime.whole_file import check_output, write_text, writing

_CURE = "Give another --output."


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
        check_output(self.output)
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
        with writing(self.path, cure=_CURE), self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def finish(self) -> None:
        """Writes the output, rows in order.

        Raises:
            DataError: if it cannot be written; what was there stays.
        """
        text = "".join(_line(row) for _, row in sorted(self.rows.items()))
        write_text(self.output, text, cure=_CURE)
        self.path.unlink(missing_ok=True)

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


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
