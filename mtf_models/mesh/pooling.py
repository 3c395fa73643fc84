"""Making a dimension shorter: pooling, striding, and taking the first entry."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from mtf_models.errors import refuse
from mtf_models.mesh.dimension import Dimension, DimensionLike, convert_to_dimension
from mtf_models.mesh.reduce import reduce_mean
from mtf_models.mesh.reshape import replace_dimensions
from mtf_models.mesh.tensor import Tensor, make, operation, unsplit

Reduction = Callable[..., Tensor]
"""Takes a tensor and `reduced_dim`, and sums that dimension out in some way."""


@operation
def reduce_first(x: Tensor, reduced_dim: DimensionLike) -> Tensor:
    """The first entry along a dimension.

    Raises:
        ShapeError: if `x` has no such dimension.
    """
    dim = convert_to_dimension(reduced_dim)
    axis = x.shape.axis(dim)
    sizes = [1 if d == dim else d.size for d in x.shape]
    first = tf.slice(unsplit(x, [dim]), [0] * len(sizes), sizes)
    return make(x.mesh, tf.squeeze(first, [axis]), x.shape - dim)


@operation
def pool_tensor_1d(
    x: Tensor, pool_dim: DimensionLike, reduce_fn: Reduction = reduce_mean, pool_size: int = 2
) -> Tensor:
    """Reduces every `pool_size` entries along a dimension to one.

    Args:
        x: has `pool_dim`.
        pool_dim: the dimension; the result has it shorter, under the same name.
        reduce_fn: how, for example `mtf.reduce_mean`, `mtf.reduce_max`, `mtf.reduce_first`.
        pool_size: how many entries become one.

    Raises:
        ShapeError: if `x` lacks the dimension or its size is no multiple of `pool_size`.
    """
    dim = convert_to_dimension(pool_dim)
    divides = pool_size > 0 and dim.size % pool_size == 0
    refuse(
        f"pooling of {x.shape} along {dim}",
        [
            f"the tensor has no {dim}" if dim not in x.shape else None,
            f"{dim.size} entries are no multiple of {pool_size}" if not divides else None,
        ],
    )
    window = Dimension(f"{dim.name}_of_pool", pool_size)
    windows = [Dimension(dim.name, dim.size // pool_size), window]
    return reduce_fn(replace_dimensions(x, dim, windows), reduced_dim=window)


@operation
def stride_tensor_1d(x: Tensor, pool_dim: DimensionLike, pool_size: int = 2) -> Tensor:
    """Keeps the first of every `pool_size` entries along a dimension.

    Raises:
        ShapeError: if `x` lacks the dimension or its size is no multiple of `pool_size`.
    """
    return pool_tensor_1d(x, pool_dim, reduce_first, pool_size)
