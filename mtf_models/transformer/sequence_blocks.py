"""Blocks of a fixed size in each sequence of a row, and who belongs to which."""

from __future__ import annotations

from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Shape, Tensor


@dataclass(frozen=True)
class SequenceBlocks:
    """The whole blocks of a row's sequences, numbered through the row.

    What is left behind the last whole block of a sequence belongs to that block; a sequence that
    is shorter than a block has none (Guo et al. 2022, section 3.1.2, and its implementations).

    Attributes:
        dim: the blocks, as many as a row can have.
        number: [batch, length] int32, the block of a position; -1 for none, as at padding.
        owner: [batch, blocks] int32, the sequence_id of a block; 0 for one that is not there.
    """

    dim: Dimension
    number: Tensor
    owner: Tensor

    @classmethod
    def of(cls, sequence_id: Tensor, length: Dimension, size: int) -> SequenceBlocks:
        """The blocks of some rows.

        Args:
            sequence_id: [batch, length] int32, 0 for padding; a sequence lies in one piece.
            length: of the rows.
            size: of a block; at most the length.
        """
        dim = Dimension("sequence_blocks", length.size // size)
        shape = sequence_id.shape
        index = mtf.broadcast(mtf.mtf_range(sequence_id.mesh, length), shape)
        real = mtf.not_equal(sequence_id, 0)
        place = index - _beginning(sequence_id, index, length)
        inside = place % size
        ends = mtf.logical_and(real, mtf.equal(inside, size - 1))
        # Where the block of a position would end lies another sequence.
        there = mtf.gather(sequence_id, index - inside + (size - 1), length, shape)
        left_over = mtf.logical_and(real, mtf.not_equal(there, sequence_id))
        before = mtf.to_int32(mtf.cumsum(mtf.to_float(ends), length, exclusive=True))
        number = before - mtf.to_int32(left_over)
        lone = mtf.logical_and(left_over, mtf.less(place, size))
        number = mtf.where(mtf.logical_or(mtf.logical_not(real), lone), -1, number)
        last = mtf.one_hot(mtf.where(ends, before, -1), dim)
        owner = mtf.einsum([last, mtf.to_float(sequence_id)], shape - length + dim)
        return cls(dim, number, mtf.to_int32(owner))

    def sums(self, x: Tensor, length: Dimension) -> Tensor:
        """[batch, length, d_model] to [batch, blocks, d_model]: what lies in each, added up."""
        member = mtf.one_hot(self.number, self.dim, dtype=x.dtype)
        return mtf.einsum([member, x], Shape([self.dim if d == length else d for d in x.shape]))


def _beginning(sequence_id: Tensor, index: Tensor, length: Dimension) -> Tensor:
    """[batch, length] int32, where the sequence of a position begins."""
    former = mtf.shift(sequence_id, 1, length, wrap=False)
    begins = mtf.logical_or(mtf.not_equal(sequence_id, former), mtf.equal(index, 0))
    order = mtf.argsort(mtf.where(begins, index, length.size), length)
    ordinal = mtf.to_int32(mtf.cumsum(mtf.to_float(begins), length)) - 1
    return mtf.gather(order, ordinal, length, sequence_id.shape)
