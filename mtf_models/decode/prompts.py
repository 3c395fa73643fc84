"""Where rows begin and how far they may go."""

from __future__ import annotations

from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.decode import rows
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor


@dataclass(frozen=True)
class Prompts:
    """The rows to decode, all at the same position at a time.

    Attributes:
        ids: [batch, length] int32, what is given, 0 after it.
        lengths: [batch] int32, how many ids are given.
        limits: [batch] int32, the position at which a row ends at the latest.
    """

    ids: Tensor
    lengths: Tensor
    limits: Tensor

    @classmethod
    def of(cls, ids: Tensor, limits: Tensor | None = None) -> Prompts:
        """Prompts that end at their last id that is not 0.

        Args:
            ids: [batch, length] int32.
            limits: [batch] int32; by default every row may fill its length.
        """
        length = ids.shape.get_dim_by_name("length")
        batch = ids.shape - length
        positions = mtf.mtf_range(ids.mesh, length)
        end = mtf.where(mtf.not_equal(ids, 0), positions + 1, 0, output_shape=ids.shape)
        lengths = mtf.reduce_max(end, reduced_dim=length)
        whole = mtf.constant(ids.mesh, length.size, batch, lengths.dtype)
        return cls(ids, lengths, whole if limits is None else mtf.minimum(limits, whole))

    @property
    def mesh(self) -> Mesh:
        """Where the rows are."""
        return self.ids.mesh

    @property
    def length(self) -> Dimension:
        """The positions."""
        return self.ids.shape.get_dim_by_name("length")

    @property
    def batch(self) -> Shape:
        """The rows."""
        return self.lengths.shape

    @property
    def positions(self) -> Tensor:
        """[length] int32: 0, 1, ..."""
        return mtf.mtf_range(self.mesh, self.length)

    def repeated(self, times: int) -> Prompts:
        """Each row `times` times in a place."""
        return Prompts(*(rows.repeated(x, times) for x in (self.ids, self.lengths, self.limits)))

    def are_given(self, position: Tensor) -> Tensor:
        """[batch] bool, whether the id at a position is given."""
        return mtf.less(position, self.lengths, output_shape=self.batch)

    def are_over(self, position: Tensor) -> Tensor:
        """[batch] bool, whether a position is beyond the limit."""
        return mtf.greater_equal(position, self.limits, output_shape=self.batch)

    def at(self, ids: Tensor, position: Tensor) -> Tensor:
        """[..., length] ids at one position; 0 before the first."""
        here = mtf.equal(self.positions, position)
        found = mtf.where(here, ids, 0, output_shape=ids.shape)
        return mtf.reduce_sum(found, reduced_dim=self.length)

    def written(self, ids: Tensor, position: Tensor, token: Tensor) -> Tensor:
        """[..., length] ids with others at one position."""
        here = mtf.equal(self.positions, position)
        return mtf.where(here, token, ids, output_shape=ids.shape)
