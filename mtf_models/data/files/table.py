"""All rows of some files, read once to know how many fit and which do not."""

from __future__ import annotations

import collections
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mtf_models.data.files.columns import Columns, Mapped, Value, mapped
from mtf_models.data.files.formats import TEXT, BadRowError, Content, Format, Span, format_of
from mtf_models.errors import DataError

_SHOWN = 5

_log = logging.getLogger("mtf_models")


class Fault(NamedTuple):
    """A row that does not fit.

    Attributes:
        path: of its file.
        number: of its line or record, from 1.
        reason: the same for all rows with this fault.
        text: reason and what the row has.
    """

    path: str
    number: int
    reason: str
    text: str


@dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        values: feature to text or token ids.
        rest: what its file says beside them, by name.
    """

    values: Mapping[str, Value]
    rest: Mapping[str, Any]


@dataclass(frozen=True)
class _File:
    """A file whose rows are known.

    Attributes:
        bounds: begin and end of each good row in the content, int64 [rows, 2].
    """

    path: str
    kind: Format
    columns: Mapped
    content: Content
    bounds: np.ndarray

    def row(self, place: int) -> Row:
        begin, end = self.bounds[place].tolist()
        fields = self.kind.fields(self.content[begin:end])
        return Row(self.columns.take(fields), self.columns.rest(fields))


class Table:
    """The rows of some files, in the order of the files and of the rows in them.

    Plain files are mapped, so that memory holds no more than where the rows are; compressed ones
    and TFRecords are held whole.

    Args:
        paths: of the files.
        features: what each row must have.
        columns: see `columns.mapped`.
        optional: features that are taken where they are.
        sizes: feature to the number of ids of its vocabulary, for files of token ids.
        on_bad: "error" refuses files with rows that do not fit, "skip" leaves these out and says
            how many there are for what reason.
        keep_blank: whether an empty line is a row. Else it is a fault, but in plain text, where
            it stands between paragraphs and is passed over.

    Raises:
        DataError: if a file cannot be read, has rows that do not fit, or none that does.
    """

    def __init__(
        self,
        paths: Sequence[str],
        features: Sequence[str],
        columns: Columns | None = None,
        optional: Sequence[str] = (),
        sizes: Mapping[str, int] | None = None,
        on_bad: str = "error",
        keep_blank: bool = False,
    ):
        self._features, self._columns, self._optional = features, columns, optional
        self._keep_blank = keep_blank
        self._sizes = dict(sizes or {})
        self._kinds: dict[str, str] = {}
        self.faults: list[Fault] = []
        self._files = [self._read(path) for path in paths]
        self._ends = np.cumsum([len(file.bounds) for file in self._files])
        if self.faults and on_bad == "error":
            raise DataError(listed(self.faults))
        if not len(self):
            names = ", ".join(paths)
            lost = f" but {len(self.faults)} that do not fit" if self.faults else ""
            there = "are empty: they have" if len(paths) > 1 else "is empty: it has"
            raise DataError(f"{names} {there} no line{lost}.")
        if self.faults:
            _log.warning("%s", self.skipped())
        faulty = {fault.path for fault in self.faults}
        empty = [f.path for f in self._files if not len(f.bounds) and f.path not in faulty]
        if empty:
            _log.warning("%s: no line there; the other files are read.", ", ".join(empty))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, place: int) -> Row:
        number = int(np.searchsorted(self._ends, place, side="right"))
        file = self._files[number]
        return file.row(place - int(self._ends[number]) + len(file.bounds))

    @property
    def kinds(self) -> Mapping[str, str]:
        """Feature to "text" or "ids", as all rows have it."""
        return self._kinds

    def skipped(self) -> str:
        """How many rows were left out, by reason; empty if none were."""
        if not self.faults:
            return ""
        counts = collections.Counter(fault.reason for fault in self.faults)
        reasons = "; ".join(f"{count} × {reason}" for reason, count in counts.most_common())
        files = dict.fromkeys(fault.path for fault in self.faults)
        good = sum(len(file.bounds) for file in self._files if file.path in files)
        total = good + len(self.faults)
        return f"Skipped {len(self.faults)} of {total:,} lines of {', '.join(files)}: {reasons}."

    def _read(self, path: str) -> _File:
        kind = format_of(path)
        content, spans = kind.load(path)
        columns, bounds = None, []
        for span, fields in self._parsed(path, kind, content, spans):
            if columns is None:
                columns = mapped(path, kind, fields, self._features, self._columns, self._optional)
                if columns.header:
                    continue
            try:
                self._check(columns.take(fields))
            except BadRowError as error:
                self._add(path, span, error)
            else:
                bounds.append((span.begin, span.end))
        found = np.array(bounds, np.int64).reshape(-1, 2)
        return _File(path, kind, columns or Mapped({}, None, False), content, found)

    def _parsed(
        self, path: str, kind: Format, content: Content, spans: Iterator[Span]
    ) -> Iterator[tuple[Span, Any]]:
        for span in spans:
            try:
                fields = kind.fields(content[span.begin : span.end])
            except BadRowError as error:
                self._add(path, span, error)
                continue
            if kind is not TEXT or self._keep_blank or fields != [""]:
                yield span, fields

    def _check(self, values: Mapping[str, Value]) -> None:
        if not self._keep_blank and not any(len(value) for value in values.values()):
            raise BadRowError("empty line")
        for feature, value in values.items():
            kind = "text" if isinstance(value, str) else "ids"
            first = self._kinds.setdefault(feature, kind)
            if kind != first:
                raise BadRowError(f"{feature} are {kind}", f"those of rows before are {first}")
            size = self._sizes.get(feature)
            if kind == "ids" and size is not None and len(value) and value.max() >= size:
                raise BadRowError(
                    f"ids of {feature} beyond the vocabulary of {size}", f"it has {value.max()}"
                )

    def _add(self, path: str, span: Span, error: BadRowError) -> None:
        self.faults.append(Fault(path, span.number, error.reason, str(error)))


def listed(faults: Sequence[Fault]) -> str:
    """The first of some faults, each with its file and line, and how many more there are."""
    lines = [f"{fault.path}:{fault.number}: {fault.text}" for fault in faults[:_SHOWN]]
    more = f"\n  and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return "\n  ".join(["Lines that do not fit:", *lines]) + more
