"""How a task makes ids of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import seqio


class Encoding(NamedTuple):
    """How texts become ids.

    Attributes:
        vocabulary: encodes them.
        end: the ids after them: the end of sequence, or none.
    """

    vocabulary: seqio.Vocabulary
    end: tuple[int, ...]


def encoding_of(task: seqio.Task | seqio.Mixture, name: str) -> Encoding:
    """How a task encodes a feature; the prompt of a decoder-only model begins its targets."""
    feature = task.output_features.get(name)
    if feature is None:
        return Encoding(task.output_features["targets"].vocabulary, ())
    vocabulary = feature.vocabulary
    return Encoding(vocabulary, (vocabulary.eos_id,) if feature.add_eos else ())
