"""Which field of a row is which feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtf_models.data.files.formats import TEXT, BadRowError, Fields, Format, shown
from mtf_models.errors import DataError, did_you_mean

Value = str | np.ndarray
"""A text, or token ids, int32 [any]."""

Columns = Mapping[str, str | int]
"""Feature to the name of its column, or to its number from 1."""

_EOS = 1


@dataclass(frozen=True)
class Mapped:
    """How the rows of one file become features.

    Attributes:
        places: feature to the name or index of its field.
        count: how many fields a row has; None where they have names.
        header: whether the first row names the fields.
        optional: features that a row may lack.
    """

    places: Mapping[str, str | int]
    count: int | None
    header: bool
    optional: frozenset[str] = frozenset()

    def take(self, fields: Fields) -> dict[str, Value]:
        """The features of a row.

        Raises:
            BadRowError: if it has another number of fields, or lacks one.
        """
        if self.count is not None:
            self._check_count(fields)
        values = {}
        for feature, place in self.places.items():
            if isinstance(place, str) and place not in fields:
                if feature in self.optional:
                    continue
                raise BadRowError(f"no {place!r}", f"it has {', '.join(map(str, fields))}")
            values[feature] = _value(place, fields[place])
        return values

    def rest(self, fields: Fields) -> dict[str, Any]:
        """What a row has beside its features, by name."""
        if not isinstance(fields, Mapping):
            return {}
        return {name: fields[name] for name in fields if name not in self.places.values()}

    def _check_count(self, fields: Sequence[str]) -> None:
        if fields in ([], [""]) and self.count != 1:
            raise BadRowError("empty line")
        if len(fields) != self.count:
            unit = "field" if self.count == 1 else "fields"
            raise BadRowError(
                f"expected {self.count} {unit}, found {len(fields)}", shown("\t".join(fields))
            )


def mapped(
    path: str,
    kind: Format,
    first: Fields,
    features: Sequence[str],
    columns: Columns | None = None,
    optional: Sequence[str] = (),
) -> Mapped:
    """Finds the columns of a file.

    Without `columns`, fields with names are found by those of the features, and fields without
    are taken in the order of the features; a first row that names all of them is a header.

    Args:
        path: of the file, for messages.
        kind: its format.
        first: the fields of its first row.
        features: what is needed.
        columns: feature to column, for any of them.
        optional: further features, taken where they are.

    Raises:
        DataError: if columns are given that the file does not have.
    """
    columns = dict(columns or {})
    _check_columns(columns, [*features, *optional])
    wanted = {feature: columns.get(feature, feature) for feature in [*features, *optional]}
    if kind.by_name:
        numbers = {f: c for f, c in columns.items() if isinstance(c, int)}
        if numbers:
            raise DataError(f"{path} is {kind.name}, whose fields have names, not numbers.")
        return Mapped(wanted, None, header=False, optional=frozenset(optional))
    if kind is TEXT and len(features) > 1:
        raise DataError(
            f"{path} is plain text, which has one field a line, and {' and '.join(features)} are "
            "needed; give a file that ends in .tsv, .csv, .jsonl or .tfrecord."
        )
    there = {f: c for f, c in wanted.items() if f in features or c in first}
    if all(isinstance(c, str) and c in first for c in there.values()):
        places = {feature: first.index(column) for feature, column in there.items()}
        return Mapped(places, len(first), header=True)
    if columns:
        return _numbered(path, kind, first, there)
    names = list(features)
    if optional and len(first) == len(features) + len(optional):
        names += optional
    return Mapped({name: i for i, name in enumerate(names)}, len(names), header=False)


def _check_columns(columns: Columns, features: Sequence[str]) -> None:
    unknown = [name for name in columns if name not in features]
    if unknown:
        raise DataError(
            f"Columns are given for {', '.join(unknown)}, and what is read is "
            f"{' and '.join(features)}."
        )


def _numbered(path: str, kind: Format, first: Sequence[str], wanted: Columns) -> Mapped:
    names = [c for c in wanted.values() if isinstance(c, str)]
    if names:
        missing = [f"{name!r}{did_you_mean(name, first)}" for name in names if name not in first]
        raise DataError(
            f"The first line of {path} names no column {' or '.join(missing)} Give names of that "
            "line, or numbers from 1 for a file without names."
        )
    beyond = [number for number in wanted.values() if not 1 <= number <= len(first)]
    if beyond:
        raise DataError(
            f"{path} has no column {', '.join(map(str, beyond))}: its first {kind.unit} has "
            f"{len(first)}, numbered from 1."
        )
    return Mapped({f: n - 1 for f, n in wanted.items()}, len(first), header=False)


def _value(place: str | int, value: Any) -> Value:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(item) is int for item in value):
        ids = np.array(value, np.int64)
        # The end of sequence is added to every example, so it is not kept here.
        ids = ids[:-1] if len(ids) and ids[-1] == _EOS else ids
        if len(ids) and not (0 <= ids.min() and ids.max() < 2**31):
            raise BadRowError("token ids that are none", f"{ids.min()} to {ids.max()}")
        return ids.astype(np.int32)
    raise BadRowError(f"expected a text under {place!r}", f"found {repr(value)[:40]}")
