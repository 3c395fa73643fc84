"""Selecting by index: ranges, one-hot vectors, gathers and scatters."""

from __future__ import annotations

import tensorflow as tf

from mtf_models.errors import ShapeError, refuse
from mtf_models.mesh.dimension import (
    Dimension,
    DimensionLike,
    Shape,
    ShapeLike,
    convert_to_dimension,
    convert_to_shape,
)
from mtf_models.mesh.elementwise import scalar
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.reshape import broadcast_value, transpose
from mtf_models.mesh.tensor import Tensor, make, operation, settle, size_value, sizes, unsplit


@operation
def mtf_range(mesh: Mesh, dim: DimensionLike, dtype: tf.DType = tf.int32) -> Tensor:
    """0, 1, ... along `dim`."""
    dim = convert_to_dimension(dim)
    return make(mesh, tf.cast(tf.range(size_value(dim.size)), dtype), Shape([dim]))


@operation
def one_hot(
    indices: Tensor,
    output_dim: DimensionLike,
    on_value: float = 1.0,
    off_value: float = 0.0,
    dtype: tf.DType = tf.float32,
) -> Tensor:
    """A vector along `output_dim`, on at the index; an index out of range is off everywhere.

    Args:
        indices: integers.
        output_dim: becomes the last dimension of the result.
        on_value: at the index.
        off_value: elsewhere.
        dtype: of the result.

    Raises:
        ShapeError: if the indices are not integers.
    """
    output_dim = convert_to_dimension(output_dim)
    places = _whole_numbers(indices, "one_hot")
    positions = tf.cast(tf.range(size_value(output_dim.size)), places.dtype)
    hit = tf.equal(tf.expand_dims(places, -1), positions)
    value = tf.where(hit, scalar(on_value, dtype), scalar(off_value, dtype))
    return make(indices.mesh, value, indices.shape + output_dim)


@operation
def gather(
    weights: Tensor,
    indices: Tensor,
    dim: DimensionLike,
    output_shape: ShapeLike | None = None,
    in_range: bool = False,
) -> Tensor:
    """Takes the entries of `weights` along `dim` at `indices`; out of range gives zeros.

    Dimensions that both have are batch dimensions: each entry of one is a lookup of its own.

    Args:
        weights: has `dim`.
        indices: integers.
        dim: the dimension to select along.
        output_shape: by default the dimensions of `indices`, then those of `weights` that are
            left, as of the product with a one-hot tensor; or the same in another order.
        in_range: whether indices are known to be in range: they are not looked at then.

    Raises:
        ShapeError: if `dim` is absent, the indices are not integers, or one name has two sizes.
    """
    dim = convert_to_dimension(dim)
    weights.shape.axis(dim)
    places = _whole_numbers(indices, "gather")
    rest = [d for d in weights.shape if d != dim]
    _refuse_two_sizes(f"gather from {weights.shape} at {indices.shape}", indices.shape, rest)
    natural = Shape([*indices.shape, *(d for d in rest if d not in indices.shape)])
    if in_range:
        at = Tensor(weights.mesh, indices.shape, places)
        shape, found = _looked_up(weights, at, dim)
        return transpose(make(weights.mesh, found, shape), output_shape or natural)
    safe = tf.clip_by_value(places, 0, tf.cast(size_value(dim.size) - 1, places.dtype))
    inside = Tensor(weights.mesh, indices.shape, tf.equal(safe, places))
    at = Tensor(weights.mesh, indices.shape, safe)
    shape, found = _looked_up(weights, at, dim)
    # Of equal shapes: on a mesh the gradient of a selection that is broadcast takes the sizes of
    # a part for those of the whole, or by a scalar brings the process down.
    taken = tf.broadcast_to(broadcast_value(inside, shape), sizes(shape))
    taken = weights.mesh.pin(taken, shape)
    found = tf.where(taken, found, tf.zeros_like(found))
    return transpose(make(weights.mesh, found, shape), output_shape or natural)


@operation
def scatter(
    updates: Tensor, indices: Tensor, dim: DimensionLike, output_shape: ShapeLike | None = None
) -> Tensor:
    """Adds the entries of `updates` up at `indices` along a new dimension: the reverse of `gather`.

    Entries of one index are summed, entries whose index is out of range are left out.

    Args:
        updates: has the dimensions of `indices`.
        indices: integers.
        dim: the dimension that the indices count along.
        output_shape: by default `dim`, then the dimensions of `updates` that `indices` lacks. It
            may keep dimensions of `indices`: each entry of one is then a table of its own.

    Raises:
        ShapeError: if `indices` has other dimensions than `updates` or is not of integers, or
            `output_shape` is not made of `dim` and dimensions of `updates`.
    """
    dim = convert_to_dimension(dim)
    places = _whole_numbers(indices, "scatter")
    own = [d for d in updates.shape if d not in indices.shape]
    output = Shape([dim, *own]) if output_shape is None else convert_to_shape(output_shape)
    lacking = [d for d in indices.shape if d not in updates.shape]
    foreign = [d for d in output if d != dim and d not in updates.shape]
    lost = [d for d in [dim, *own] if d not in output]
    refuse(
        f"scatter of {updates.shape} at {indices.shape} along {dim} to {output}",
        [
            f"the updates lack {Shape(lacking)}" if lacking else None,
            f"nothing has {Shape(foreign)}" if foreign else None,
            f"the result lacks {Shape(lost)}" if lost else None,
        ],
    )
    batch = [d for d in indices.shape if d in output]
    summed = [d for d in indices.shape if d not in batch]
    value = _summed_by_index(updates, Tensor(updates.mesh, indices.shape, places), dim, batch, own)
    whole = [d for d in indices.shape if d in batch or d in summed]
    shape = Shape([*batch, dim, *own])
    return transpose(settle(updates.mesh, value, shape, [*whole, dim]), output)


def _looked_up(weights: Tensor, at: Tensor, dim: Dimension) -> tuple[Shape, tf.Tensor]:
    """The entries at indices that are all in range, and their shape in the order they come in."""
    batch = [d for d in weights.shape if d in at.shape and d != dim]
    if batch:
        weights = transpose(weights, [*batch, *(d for d in weights.shape if d not in batch)])
        at = transpose(at, [*batch, *(d for d in at.shape if d not in batch)])
    axis, count = weights.shape.axis(dim), len(batch)
    dims = weights.shape.dims
    shape = Shape(dims[:axis] + at.shape.dims[count:] + dims[axis + 1 :])
    table = unsplit(weights, [dim]) if batch else weights.value
    return shape, tf.gather(table, at.value, axis=axis, batch_dims=count)


def _summed_by_index(
    updates: Tensor, at: Tensor, dim: Dimension, batch: list[Dimension], own: list[Dimension]
) -> tf.Tensor:
    """[batch, dim, own]: the updates of each index of each table, summed."""
    summed = [d for d in at.shape if d not in batch]
    whole = [*batch, *summed]
    order = Shape([*whole, *own])
    updates, at = transpose(updates, order), transpose(at, whole)
    tables, count = size_value(Shape(batch).size), size_value(dim.size)
    rows = tf.reshape(unsplit(updates, whole), [size_value(Shape(whole).size), *sizes(Shape(own))])
    places = tf.reshape(unsplit(at, whole), [tables, size_value(Shape(summed).size)])
    inside = tf.logical_and(places >= 0, places < tf.cast(count, places.dtype))
    first = tf.expand_dims(tf.range(tables) * count, 1)
    # A segment of a negative number is left out.
    places = tf.where(inside, places + tf.cast(first, places.dtype), -tf.ones_like(places))
    found = tf.math.unsorted_segment_sum(rows, tf.reshape(places, [-1]), tables * count)
    return tf.reshape(found, sizes(Shape([*batch, dim, *own])))


def _refuse_two_sizes(what: str, shape: Shape, others: list[Dimension]) -> None:
    twice = [d for d in others if shape.has(d.name) and d not in shape]
    refuse(what, [f"{d} has another size in the indices; rename one" for d in twice])


def _whole_numbers(indices: Tensor, operation_name: str) -> tf.Tensor:
    """The values of indices, in a dtype that TensorFlow indexes by."""
    if not indices.dtype.is_integer:
        raise ShapeError(
            f"mtf.{operation_name} takes integer indices, not {indices.dtype.name} "
            f"{indices.shape}; cast them (mtf.to_int32)."
        )
    indexed_by = (tf.int32, tf.int64)
    return indices.value if indices.dtype in indexed_by else tf.cast(indices.value, tf.int64)
