"""Packing: several examples to a row of fixed length, or one.

Greedy: an example goes into the current row if every feature of it fits, else it begins the next
one. So a row holds consecutive examples, and packing may begin anew at the first example of any
row: this is what makes an input stream exactly resumable.

Features longer than their row are cut at its end, and counted. `sources` can keep them out.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

Example = Mapping[str, np.ndarray]
Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Counts:
    """What went into some rows.

    Attributes:
        rows: how many rows.
        examples: how many examples.
        tokens: feature name to how many tokens, padding not counted.
        trimmed: feature name to how many examples were cut because they were longer than the row.
        skipped: task to how many examples were left out because they were longer than the row.
        drawn: task to how many examples.
    """

    rows: int = 0
    examples: int = 0
    tokens: Mapping[str, int] = dataclasses.field(default_factory=dict)
    trimmed: Mapping[str, int] = dataclasses.field(default_factory=dict)
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    drawn: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.rows + other.rows,
            self.examples + other.examples,
            _sum(self.tokens, other.tokens),
            _sum(self.trimmed, other.trimmed),
            _sum(self.skipped, other.skipped),
            _sum(self.drawn, other.drawn),
        )

    def fill(self, lengths: Mapping[str, int]) -> dict[str, float]:
        """Returns the share of each feature's positions that hold a token, 0 to 1."""
        return {name: self.tokens[name] / (self.rows * size) for name, size in lengths.items()}


def group(
    items: Iterable[Item],
    lengths: Mapping[str, int],
    example_of: Callable[[Item], Example] = lambda item: item,
) -> Iterator[list[Item]]:
    """Groups consecutive examples that fit into a row together.

    Args:
        items: examples, or what holds them.
        lengths: feature name to the length of a row.
        example_of: the example in an item: feature name to token ids of shape [any].

    Yields:
        The items of each row, at least one.
    """
    row: list[Item] = []
    free = dict(lengths)
    for item in items:
        example = example_of(item)
        sizes = {name: min(len(example[name]), length) for name, length in lengths.items()}
        if row and any(size > free[name] for name, size in sizes.items()):
            yield row
            row, free = [], dict(lengths)
        row.append(item)
        for name, size in sizes.items():
            free[name] -= size
    if row:
        yield row


def count(rows: Sequence[Sequence[Example]], lengths: Mapping[str, int]) -> Counts:
    """Counts rows, examples, tokens and examples that are cut, of grouped examples.

    Args:
        rows: the examples of each row.
        lengths: feature name to the length of a row.
    """
    sizes = {n: [len(e[n]) for row in rows for e in row] for n in lengths}
    return Counts(
        len(rows),
        sum(len(row) for row in rows),
        {n: sum(min(size, length) for size in sizes[n]) for n, length in lengths.items()},
        {n: sum(size > length for size in sizes[n]) for n, length in lengths.items()},
    )


def fill_rows(
    rows: Sequence[Sequence[Example]], lengths: Mapping[str, int], segments: bool = True
) -> tuple[dict[str, np.ndarray], Counts]:
    """Writes grouped examples into arrays.

    Args:
        rows: the examples of each row, which must fit.
        lengths: feature name to the length of a row; other features are left out.
        segments: whether to tell the examples of a row apart.

    Returns:
        Feature name to token ids, int32 [rows, length], 0 where there is none. With `segments`
        also `<name>_segmentation`, the number of the example in its row from 1, and
        `<name>_position`, the token's place in its example from 0, both 0 where there is no token.
        And the counts.
    """
    row = np.repeat(np.arange(len(rows)), [len(examples) for examples in rows])
    segment = np.concatenate([np.arange(len(examples)) + 1 for examples in rows])
    features: dict[str, np.ndarray] = {}
    for name, length in lengths.items():
        parts = [example[name][:length] for examples in rows for example in examples]
        sizes = np.array([len(part) for part in parts])
        place = _places(row, sizes)
        shape = (len(rows), length)
        features[name] = _scatter(shape, place, np.concatenate(parts))
        if segments:
            position = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            features[f"{name}_segmentation"] = _scatter(shape, place, np.repeat(segment, sizes))
            features[f"{name}_position"] = _scatter(shape, place, position)
    return features, count(rows, lengths)


def _places(row: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of every token, for examples of these sizes in these (sorted) rows."""
    start = np.cumsum(sizes) - sizes
    row_start = start[np.searchsorted(row, row)]
    return np.repeat(row, sizes), np.arange(sizes.sum()) - np.repeat(row_start, sizes)


def _scatter(
    shape: tuple[int, int], place: tuple[np.ndarray, np.ndarray], values: np.ndarray
) -> np.ndarray:
    array = np.zeros(shape, np.int32)
    array[place] = values
    return array


def _sum(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}
