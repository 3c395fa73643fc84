"""Token sequences as features hold them, and what is derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Tensor

Features = Mapping[str, Tensor]

EOS = 1
"""Ends a sequence; where inputs and targets are one sequence, each of them."""


@dataclass(frozen=True)
class Sequence:
    """One feature of a batch, with its packing.

    Attributes:
        ids: [batch, length] int32, 0 at padding.
        segmentation: [batch, length] int32, which sequence of a packed row, or None.
        position: [batch, length] int32, the position inside that sequence, or None.
    """

    ids: Tensor
    segmentation: Tensor | None = None
    position: Tensor | None = None

    @classmethod
    def of(cls, features: Features, name: str) -> Sequence:
        """The feature `name` with `name`_segmentation and `name`_position, if they are there."""
        return cls(
            features[name],
            features.get(f"{name}_segmentation"),
            features.get(f"{name}_position"),
        )

    @property
    def length_dim(self) -> Dimension:
        """The dimension of the positions."""
        return self.ids.shape.get_dim_by_name("length")

    @property
    def sequence_id(self) -> Tensor:
        """Which sequence a position belongs to, 0 at padding; unpacked rows are sequence 1."""
        if self.segmentation is not None:
            return self.segmentation
        return mtf.cast(mtf.not_equal(self.ids, 0), self.ids.dtype)


def autoregressive_inputs(targets: Tensor, sequence_id: Tensor | None) -> Tensor:
    """The ids that a decoder reads: the targets one position later, 0 where a sequence starts.

    Args:
        targets: [batch, length]; negative ids (context without loss) are made positive.
        sequence_id: [batch, length] or None if rows are not packed.
    """
    length = targets.shape.get_dim_by_name("length")
    shifted = mtf.shift(mtf.abs(targets), 1, length, wrap=False)
    if sequence_id is None:
        return shifted
    previous = mtf.shift(sequence_id, 1, length, wrap=False)
    return mtf.where(mtf.equal(sequence_id, previous), shifted, 0)


def until_end(targets: Tensor, weights: Tensor, eos_id: int = EOS) -> Tensor:
    """Weights of targets, 0 after the first end of sequence that has one.

    Args:
        targets: [batch, length], one sequence a row.
        weights: [batch, length] float32; an end whose weight is 0 is read and not predicted.
        eos_id: the end of a sequence.
    """
    length = targets.shape.get_dim_by_name("length")
    ends = mtf.logical_and(mtf.equal(targets, eos_id), mtf.greater(weights, 0))
    before = mtf.cumsum(mtf.to_int32(ends), length, exclusive=True)
    return mtf.where(mtf.greater(before, 0), 0.0, weights)
