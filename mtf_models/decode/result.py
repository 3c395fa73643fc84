"""What decoding returns."""

from __future__ import annotations

from dataclasses import dataclass

from mtf_models.mesh import Tensor

NO_SEQUENCE = -1e7
"""The score in a place where a beam search found no sequence."""


@dataclass(frozen=True)
class DecodeResult:
    """Sequences of each row, best first; with several of a row all have a dimension `beam` more.

    Attributes:
        ids: [batch, length] int32, prompts included, zeros after the first id that ends a sequence.
        scores: [batch] float32. Of a finished hypothesis of a beam search its log-probability over
            the length penalty; otherwise the log-probability. `NO_SEQUENCE` where a beam search
            found fewer sequences than were asked for: their ids are zeros.
        log_probabilities: [batch] float32, of the ids after the prompt, the end included.
    """

    ids: Tensor
    scores: Tensor
    log_probabilities: Tensor
