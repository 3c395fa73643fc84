"""The random numbers that rows are decoded with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


def uniforms(
    seed: int, contents: Sequence[np.ndarray], numbers: Sequence[int], count: int, length: int
) -> np.ndarray:
    """Numbers for each row that depend on the seed and on the row itself alone.

    Neither the batch that a row sits in, nor its place there, nor padding changes them.

    Args:
        seed: from 0.
        contents: the ids of each row, padding at the end left out.
        numbers: one for each row, to tell equal rows apart.
        count: how many independent sequences of numbers each row gets.
        length: the size of a sequence; a longer one begins alike.

    Returns:
        [rows, count, length] float32, from 0 to below 1.
    """
    found = np.empty([len(contents), count, length], np.float32)
    for row, (ids, number) in enumerate(zip(contents, numbers, strict=True)):
        digest = hashlib.blake2b(np.asarray(ids, "<i8").tobytes(), digest_size=16).digest()
        words = np.frombuffer(digest, "<u4").tolist()
        for draw in range(count):
            # Raw bits, as NumPy keeps their stream for ever.
            bits = np.random.PCG64([seed, number, draw, *words]).random_raw(length)
            found[row, draw] = (bits >> 40) * 2.0**-24
    return found


def without_padding(ids: np.ndarray) -> list[np.ndarray]:
    """The rows of [batch, length] ids up to the last one that is not 0."""
    return [np.trim_zeros(row, "b") for row in ids]
