"""Batches of examples of about one length, in few shapes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

_HALVINGS = 3
_SHORTEST = 8


class Bucketed(NamedTuple):
    """One batch.

    Attributes:
        features: feature name to int32 [batch, length], zeros after the ids.
        places: which examples its first rows are; the rows after those repeat the first.
    """

    features: dict[str, np.ndarray]
    places: list[int]


def bucketed(
    examples: Sequence[Mapping[str, np.ndarray]], lengths: Mapping[str, int], rows: int
) -> Iterator[Bucketed]:
    """Puts examples of about one length together, short ones first.

    Lengths are rounded up to the full ones, or a half, a quarter or an eighth of them, so that
    there are at most four shapes. All batches have the same number of rows.

    Args:
        examples: feature name to ids.
        lengths: feature name to the longest that is read; what is longer is cut.
        rows: in a batch.
    """
    widths = [
        dict(zip(lengths, w, strict=True))
        for w in zip(*map(widths_to, lengths.values()), strict=True)
    ]
    buckets: dict[int, list[int]] = {}
    for place, example in enumerate(examples):
        sizes = {name: min(len(example[name]), lengths[name]) for name in lengths}
        fits = (i for i, w in enumerate(widths) if all(sizes[n] <= w[n] for n in w))
        buckets.setdefault(next(fits), []).append(place)
    for number, places in sorted(buckets.items()):
        for begin in range(0, len(places), rows):
            chosen = places[begin : begin + rows]
            filled = chosen + chosen[:1] * (rows - len(chosen))
            yield Bucketed(
                {n: padded([examples[p][n] for p in filled], w) for n, w in widths[number].items()},
                chosen,
            )


def widths_to(longest: int) -> list[int]:
    """The widths of batches of rows up to a length: an eighth of it, a quarter, a half, all."""
    shares = (2**n for n in range(_HALVINGS, -1, -1))
    return [max(-(-longest // share), min(longest, _SHORTEST)) for share in shares]


def padded(ids: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Rows of one width, int32 [rows, width]: zeros after the ids, what is longer is cut."""
    found = np.zeros([len(ids), width], np.int32)
    for row, values in zip(found, ids, strict=True):
        row[: min(width, len(values))] = values[:width]
    return found


def trimmed(
    examples: Sequence[Mapping[str, np.ndarray]], lengths: Mapping[str, int]
) -> dict[str, int]:
    """Feature name to how many examples are longer than what is read."""
    return {n: sum(len(e[n]) > longest for e in examples) for n, longest in lengths.items()}
