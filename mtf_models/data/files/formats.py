"""The formats of files: where their rows are, and what fields a row has."""

from __future__ import annotations

import codecs
import csv
import io
import json
import mmap
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from mtf_models.data.files.content import COMPRESSIONS, content_of, without_compression
from mtf_models.errors import DataError

Content = bytes | mmap.mmap
Fields = Sequence[str] | Mapping[str, Any]
"""By place, or by name."""

_SHOWN = 60
_LONGEST_CSV_FIELD = 2**31 - 1


class BadRowError(ValueError):
    """A row that does not fit.

    Attributes:
        reason: what is wrong with it, the same text for all rows with this fault.
        detail: what this row has.
    """

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


class Span(NamedTuple):
    """Where a row lies in the content of its file.

    Attributes:
        number: of its first line (of the record, where there are no lines), from 1.
        begin: its first byte.
        end: the byte after its last one.
    """

    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        name: for messages.
        by_name: whether the fields of a row have names.
        unit: what a row is called.
        load: reads a file: its content, and where the rows are in it.
        fields: reads a row; raises `BadRowError`.
    """

    name: str
    by_name: bool
    unit: str
    load: Callable[[str], tuple[Content, Iterator[Span]]]
    fields: Callable[[bytes], Fields]


def format_of(path: str) -> Format:
    """The format that the name of a file tells; one that tells none is plain text."""
    name = without_compression(path)
    for suffix, found in _FORMATS.items():
        if name.endswith(suffix):
            return found
    return _FORMATS[".tfrecord"] if re.search(r"\.tfrecords?-\d+-of-\d+$", name) else TEXT


def shown(raw: bytes | str) -> str:
    """The beginning of a row, as messages quote it."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def decoded(raw: bytes) -> str:
    """A row as text, without its line end.

    Raises:
        BadRowError: if it is not UTF-8.
    """
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRowError("not UTF-8", f"it has the byte 0x{raw[error.start]:02x}") from None


def _lines(path: str) -> tuple[Content, Iterator[Span]]:
    content = content_of(path)
    return content, line_spans(content)


def _csv_records(path: str) -> tuple[Content, Iterator[Span]]:
    content = content_of(path)
    return content, _csv_spans(content)


def _tf_records(path: str) -> tuple[Content, Iterator[Span]]:
    """The payloads of a TFRecord file, which TensorFlow reads and checks against their sums."""
    suffix = Path(path).suffix
    kind = {".gz": "GZIP"}.get(suffix, "")
    if suffix in COMPRESSIONS and not kind:
        raise DataError(f"{path} cannot be read: TFRecord files are plain or .gz, not {suffix}.")
    payloads: list[bytes] = []
    try:
        payloads.extend(tf.data.TFRecordDataset(path, kind).as_numpy_iterator())
    except tf.errors.DataLossError as error:
        raise DataError(
            f"{path} is no whole TFRecord file: record {len(payloads) + 1} is damaged or cut off. "
            "Write it again."
        ) from error
    except tf.errors.OpError as error:
        raise DataError(f"{path} cannot be read: {error.message}.") from error
    ends = np.cumsum([len(payload) for payload in payloads], dtype=np.int64).tolist()
    begins = [0, *ends[:-1]]
    numbers = range(1, len(ends) + 1)
    return b"".join(payloads), map(Span, numbers, begins, ends)


def line_spans(content: Content) -> Iterator[Span]:
    """The lines of a text, each with its line end; the last one needs none."""
    begin = len(codecs.BOM_UTF8) if content[:3] == codecs.BOM_UTF8 else 0
    ends = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n")) + 1
    for number, end in enumerate(ends.tolist(), start=1):
        yield Span(number, begin, end)
        begin = end
    if begin < len(content):
        yield Span(len(ends) + 1, begin, len(content))


def _csv_spans(content: Content) -> Iterator[Span]:
    """The records of CSV, in which quoted fields may hold line ends."""
    lines: list[Span] = []

    def read() -> Iterator[str]:
        for span in line_spans(content):
            lines.append(span)
            yield content[span.begin : span.end].decode("utf-8", "surrogateescape")

    csv.field_size_limit(_LONGEST_CSV_FIELD)
    reader = csv.reader(read())
    for _ in reader:
        yield Span(lines[0].number, lines[0].begin, lines[-1].end)
        lines.clear()


def _of_csv(raw: bytes) -> list[str]:
    try:
        rows = list(csv.reader(io.StringIO(decoded(raw), newline=""), strict=True))
    except csv.Error as error:
        raise BadRowError(f"not CSV ({error})", shown(raw)) from None
    return rows[0] if rows else []


def _of_tsv(raw: bytes) -> list[str]:
    return decoded(raw).split("\t")


def _of_text(raw: bytes) -> list[str]:
    return [decoded(raw)]


def _of_json(raw: bytes) -> dict[str, Any]:
    text = decoded(raw)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadRowError("not JSON", f"{error}: {shown(text)}") from None
    if not isinstance(found, dict):
        raise BadRowError("expected an object", f"found {shown(text)}")
    return found


def _of_example(raw: bytes) -> dict[str, Any]:
    try:
        example = tf.train.Example.FromString(bytes(raw))
    except Exception as error:  # protobuf has several kinds, by implementation
        raise BadRowError("not a tf.train.Example", str(error)) from None
    return {name: _value(feature) for name, feature in example.features.feature.items()}


def _value(feature: tf.train.Feature) -> Any:
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    if kind == "bytes_list" and len(values) == 1:
        return decoded(values[0])
    return values


TEXT = Format("text", False, "line", _lines, _of_text)

_FORMATS = {
    ".tsv": Format("TSV", False, "line", _lines, _of_tsv),
    ".csv": Format("CSV", False, "line", _csv_records, _of_csv),
    ".jsonl": Format("JSON lines", True, "line", _lines, _of_json),
    ".tfrecord": Format("TFRecord", True, "record", _tf_records, _of_example),
    ".tfrecords": Format("TFRecord", True, "record", _tf_records, _of_example),
}
