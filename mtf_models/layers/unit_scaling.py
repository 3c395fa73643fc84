"""Unit scaling: variables of variance 1, and their scale in the products instead."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.dimension import ShapeLike
from mtf_models.mesh.initializers import unit_scaling_convention


def us_einsum(
    xs: Sequence[Tensor],
    output_shape: ShapeLike | None = None,
    reduced_dims: Sequence[Dimension] | None = None,
) -> Tensor:
    """`mtf.einsum`, under the unit scaling convention divided by sqrt(number of summed terms).

    Args:
        xs: the operands.
        output_shape: as for `mtf.einsum`.
        reduced_dims: as for `mtf.einsum`.
    """
    y = mtf.einsum(xs, output_shape=output_shape, reduced_dims=reduced_dims)
    if not unit_scaling_convention():
        return y
    summed = Shape([*dict.fromkeys(d for x in xs for d in x.shape if d not in y.shape)])
    return y * summed.size**-0.5
