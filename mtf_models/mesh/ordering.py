"""The order of entries along a dimension: the largest, the smallest, all of them."""

from __future__ import annotations

import tensorflow as tf

from mtf_models.errors import refuse
from mtf_models.mesh import kernel_reductions, scopes
from mtf_models.mesh.dimension import DimensionLike, Shape, convert_to_dimension
from mtf_models.mesh.reduce import reduce_max
from mtf_models.mesh.tensor import Tensor, make, operation, settle, unsplit

_BLOCK = 64
"""Elements of which the largest is found first."""

_LONG = 1024
"""Elements for each one wanted, from which on it pays to look at blocks first."""


@operation
def argmax(x: Tensor, reduced_dim: DimensionLike) -> Tensor:
    """The index of the largest entry along a dimension, int32; the first on ties.

    Raises:
        ShapeError: if `x` has no such dimension.
    """
    dim = convert_to_dimension(reduced_dim)
    axis = x.shape.axis(dim)
    value = unsplit(x, [dim])
    value = tf.cast(value, tf.int32) if x.dtype.is_bool else value
    if scopes.in_kernel():
        return make(x.mesh, kernel_reductions.row_argmax(value, axis), x.shape - dim)
    return make(x.mesh, tf.argmax(value, axis, output_type=tf.int32), x.shape - dim)


@operation
def top_1(x: Tensor, reduced_dim: DimensionLike) -> tuple[Tensor, Tensor]:
    """The largest entry along a dimension, and its index; the first on ties."""
    dim = convert_to_dimension(reduced_dim)
    return reduce_max(x, reduced_dim=dim), argmax(x, dim)


@operation
def top_k(x: Tensor, reduced_dim: DimensionLike, k_dim: DimensionLike) -> tuple[Tensor, Tensor]:
    """The largest entries along a dimension, in descending order, and their indices.

    Args:
        x: has `reduced_dim`.
        reduced_dim: the dimension to choose from.
        k_dim: takes its place at the end; its size says how many are chosen.

    Returns:
        The entries and their indices (int32), each with the dimensions of `x` less `reduced_dim`,
        then `k_dim`. Of equal entries the first comes first.

    Raises:
        ShapeError: if `x` lacks `reduced_dim`, has another `k_dim`, or more are asked for than
            there are.
    """
    dim, k_dim = convert_to_dimension(reduced_dim), convert_to_dimension(k_dim)
    kept = [d for d in x.shape if d != dim]
    refuse(
        f"top_k of {x.shape} over {dim} into {k_dim}",
        [
            f"the tensor has no {dim}" if dim not in x.shape else None,
            f"the tensor keeps a {k_dim.name}" if k_dim.name in [d.name for d in kept] else None,
            f"there are fewer than {k_dim.size} entries" if k_dim.size > dim.size else None,
        ],
    )
    shape = Shape([*kept, k_dim])
    values, indices = _largest(_last(x, dim), k_dim.size)
    return settle(x.mesh, values, shape, [k_dim]), settle(x.mesh, indices, shape, [k_dim])


@operation
def argsort(x: Tensor, dim: DimensionLike) -> Tensor:
    """The indices that put the entries along a dimension into ascending order.

    Args:
        x: has `dim`.
        dim: the dimension to sort along.

    Returns:
        int32, of the shape of `x` with `dim` at the end. Equal entries stay in their order.

    Raises:
        ShapeError: if `x` has no such dimension.
    """
    dim = convert_to_dimension(dim)
    value = _last(x, dim)
    # Of equal entries `top_k` takes the first one first. -1 - x exists for every signed integer.
    falling = -1 - value if x.dtype.is_integer else -value
    order = tf.math.top_k(falling, dim.size).indices
    return settle(x.mesh, order, x.shape - dim + dim, [dim])


@operation
def nth_largest_element(x: Tensor, n: int, reduced_dim: DimensionLike) -> Tensor:
    """The entry that is the largest but `n` along a dimension: the largest for `n` = 0.

    Raises:
        ShapeError: if `x` has no such dimension, or it has no entry of that number.
    """
    dim = convert_to_dimension(reduced_dim)
    refuse(
        f"the element number {n} in order of {x.shape} along {dim}",
        [
            f"the tensor has no {dim}" if dim not in x.shape else None,
            f"numbers go from 0 to {dim.size - 1}" if not 0 <= n < dim.size else None,
        ],
    )
    chosen = tf.math.top_k(_last(x, dim), n + 1).values
    sizes = (x.shape - dim).to_integer_list
    value = tf.squeeze(tf.slice(chosen, [0] * len(sizes) + [n], [*sizes, 1]), [-1])
    return make(x.mesh, value, x.shape - dim)


@operation
def nth_smallest_element(x: Tensor, n: int, reduced_dim: DimensionLike) -> Tensor:
    """The entry that is the smallest but `n` along a dimension: the smallest for `n` = 0.

    Raises:
        ShapeError: if `x` has no such dimension, or it has no entry of that number.
    """
    dim = convert_to_dimension(reduced_dim)
    return nth_largest_element(x, dim.size - 1 - n, dim)


def _largest(value: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The `count` largest elements of the last axis and their indices, in descending order.

    Of a long axis only the blocks with the largest maxima are looked through: maxima are found in
    vector instructions. Blocks are taken in their order, so that of equal elements the first comes
    first.
    """
    length = value.shape[-1]
    if value.shape.rank != 2 or length is None or length % _BLOCK or length < _LONG * count:
        found = tf.math.top_k(value, count)
        return found.values, found.indices
    blocks = tf.reshape(value, [-1, length // _BLOCK, _BLOCK])
    best = tf.math.top_k(tf.reduce_max(blocks, axis=-1), count).indices
    best = tf.sort(best, axis=-1)
    looked_at = tf.reshape(tf.gather(blocks, best, batch_dims=1), [-1, count * _BLOCK])
    found = tf.math.top_k(looked_at, count)
    block = tf.gather(best, found.indices // _BLOCK, batch_dims=1)
    return found.values, block * _BLOCK + found.indices % _BLOCK


def _last(x: Tensor, dim: DimensionLike) -> tf.Tensor:
    """The value with `dim` whole and at the end."""
    axis = x.shape.axis(dim)
    order = [i for i in range(x.shape.ndims) if i != axis] + [axis]
    value = unsplit(x, [dim])
    if axis == len(order) - 1:
        return value
    shape = Shape([x.shape.dims[i] for i in order])
    return x.mesh.pin(tf.transpose(value, order), shape, [dim])
