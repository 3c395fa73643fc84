"""Running totals along a dimension."""

from __future__ import annotations

import tensorflow as tf

from mtf_models.mesh.dimension import DimensionLike, convert_to_dimension
from mtf_models.mesh.tensor import Tensor, operation, settle, unsplit


@operation
def cumsum(x: Tensor, dim: DimensionLike, exclusive: bool = False) -> Tensor:
    """The sum of the entries up to each one along a dimension.

    Args:
        x: has `dim`.
        dim: the dimension to sum along.
        exclusive: whether an entry itself is left out, so that the first sum is 0.

    Returns:
        The shape of `x`.

    Raises:
        ShapeError: if `x` has no such dimension.
    """
    dim = convert_to_dimension(dim)
    axis = x.shape.axis(dim)
    value = tf.cumsum(unsplit(x, [dim]), axis, exclusive=exclusive)
    return settle(x.mesh, value, x.shape, [dim])
