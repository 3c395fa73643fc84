"""How long the examples of a task are, what is cut or padded, and what its vocabulary lacks."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import seqio


@dataclass(frozen=True)
class Lengths:
    """Of one feature over some examples.

    Attributes:
        sizes: the number of ids of each example, int64 [examples], end of sequence counted.
        limit: the length of a row.
        unknown_ids: how many ids are the one for what the vocabulary lacks.
        beyond: how many ids are beyond the vocabulary.
        unknown_characters: characters that the vocabulary lacks, the most frequent first.
    """

    sizes: np.ndarray
    limit: int
    unknown_ids: int
    beyond: int
    unknown_characters: Mapping[str, int]

    @property
    def cut(self) -> float:
        """The share of examples that are longer than a row, 0 to 1."""
        return float(np.mean(self.sizes > self.limit))

    @property
    def lost(self) -> float:
        """The share of ids that are cut off, 0 to 1."""
        over = np.maximum(self.sizes - self.limit, 0)
        return float(over.sum() / max(self.sizes.sum(), 1))

    @property
    def padding(self) -> float:
        """The share of padding with one example to a row, 0 to 1."""
        return 1.0 - float(np.mean(np.minimum(self.sizes, self.limit)) / self.limit)

    def quantile(self, share: float) -> int:
        """The length that this share of examples does not exceed."""
        return int(np.quantile(self.sizes, share, method="higher"))


def lengths_of(
    name: str, examples: Sequence[Mapping[str, Any]], vocabulary: seqio.Vocabulary, limit: int
) -> Lengths:
    """Measures a feature.

    Args:
        name: of the feature.
        examples: tokenised and uncut, at least one; with the texts as `<name>_pretokenized`, if
            characters are to be looked at.
        vocabulary: of the feature.
        limit: the length of a row.
    """
    arrays = [np.asarray(example[name]) for example in examples]
    ids = np.concatenate(arrays)
    unknown = vocabulary.unk_id
    return Lengths(
        np.array([len(array) for array in arrays]),
        limit,
        0 if unknown is None else int((ids == unknown).sum()),
        int((ids >= vocabulary.vocab_size).sum()),
        _unknown_characters(name, examples, vocabulary),
    )


def _unknown_characters(
    name: str, examples: Sequence[Mapping[str, Any]], vocabulary: seqio.Vocabulary
) -> dict[str, int]:
    counts: collections.Counter[str] = collections.Counter()
    for example in examples:
        text = example.get(f"{name}_pretokenized")
        if isinstance(text, bytes):
            counts.update(text.decode("utf-8", "replace"))
    if vocabulary.unk_id is None or isinstance(vocabulary, seqio.ByteVocabulary):
        return {}
    return {
        character: count
        for character, count in counts.most_common()
        if not character.isspace() and vocabulary.unk_id in list(vocabulary.encode(character))
    }
