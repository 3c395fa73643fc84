"""Selecting by index: ranges, one-hot vectors, gathers, slices and shifts along a dimension."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from mtf_models.errors import ShapeError
from mtf_models.mesh.dimension import Dimension, Shape, ShapeLike
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.reshape import broadcast_value, transpose
from mtf_models.mesh.tensor import Tensor, make, operation, settle


@operation
def mtf_range(mesh: Mesh, dim: Dimension, dtype: tf.DType = tf.int32) -> Tensor:
    """0, 1, ... along `dim`."""
    return make(mesh, tf.cast(tf.range(dim.size), dtype), Shape([dim]))


@operation
def one_hot(
    indices: Tensor,
    output_dim: Dimension,
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
    places = _whole_numbers(indices, "one_hot")
    positions = tf.range(output_dim.size, dtype=places.dtype)
    hit = tf.equal(tf.expand_dims(places, -1), positions)
    value = tf.where(hit, tf.constant(on_value, dtype), tf.constant(off_value, dtype))
    return make(indices.mesh, value, indices.shape + output_dim)


@operation
def gather(
    weights: Tensor, indices: Tensor, dim: Dimension, output_shape: ShapeLike | None = None
) -> Tensor:
    """Takes the entries of `weights` along `dim` at `indices`; out of range gives zeros.

    Args:
        weights: has `dim`.
        indices: integers; shares no dimension with `weights`.
        dim: the dimension to select along.
        output_shape: by default `weights` with `dim` replaced by the dimensions of `indices`.

    Raises:
        ShapeError: if the two share a dimension, `dim` is absent, or the indices are not integers.
    """
    axis = weights.shape.axis(dim)
    shared = [d for d in indices.shape if weights.shape.has(d.name) and d.name != dim.name]
    if shared:
        raise ShapeError(
            f"gather from {weights.shape} at {indices.shape}: both have {Shape(shared)}; rename it."
        )
    places = _whole_numbers(indices, "gather")
    safe = tf.clip_by_value(places, 0, dim.size - 1)
    found = tf.gather(weights.value, safe, axis=axis)
    dims = weights.shape.dims
    shape = Shape(dims[:axis] + indices.shape.dims + dims[axis + 1 :])
    # Of equal rank: on a mesh the gradient of a selection by a scalar brings the process down.
    inside = broadcast_value(Tensor(weights.mesh, indices.shape, tf.equal(safe, places)), shape)
    result = make(weights.mesh, tf.where(inside, found, tf.zeros([], found.dtype)), shape)
    return result if output_shape is None else transpose(result, output_shape)


@operation
def slice(x: Tensor, begin: int, size: int, dim_name: str) -> Tensor:
    """The `size` entries of a dimension from `begin` on.

    Raises:
        ShapeError: if they are not all there.
    """
    dim = x.shape.get_dim_by_name(dim_name)
    if begin < 0 or size < 1 or begin + size > dim.size:
        raise ShapeError(f"Entries {begin} to {begin + size} are not all in {dim} of {x.shape}.")
    whole = x.mesh.pin(x.value, x.shape, [dim])
    begins = [begin if d == dim else 0 for d in x.shape]
    shape = x.shape.resize_dimension(dim_name, size)
    value = tf.slice(whole, begins, shape.to_integer_list)
    return settle(x.mesh, value, shape, [shape.get_dim_by_name(dim_name)])


@operation
def pad(x: Tensor, paddings: Sequence[int], dim_name: str, pad_value: float = 0) -> Tensor:
    """Adds `paddings` = [before, after] entries of `pad_value` along a dimension."""
    dim = x.shape.get_dim_by_name(dim_name)
    whole = x.mesh.pin(x.value, x.shape, [dim])
    margins = [list(paddings) if d == dim else [0, 0] for d in x.shape]
    shape = x.shape.resize_dimension(dim_name, dim.size + sum(paddings))
    value = tf.pad(whole, margins, constant_values=pad_value)
    return settle(x.mesh, value, shape, [shape.get_dim_by_name(dim_name)])


@operation
def shift(x: Tensor, offset: int, dim: Dimension, wrap: bool) -> Tensor:
    """Moves entries by `offset` to higher indices along `dim`.

    Args:
        x: any tensor.
        offset: how far; negative to lower indices.
        dim: the dimension.
        wrap: whether what leaves at one end enters at the other; else zeros enter.
    """
    step = offset % dim.size if wrap else max(-dim.size, min(offset, dim.size))
    if step == 0:
        return x
    axis = x.shape.axis(dim)
    value = x.mesh.pin(x.value, x.shape, [dim])
    moved, left = _cut(value, axis, dim.size - step if step > 0 else -step, dim.size)
    if not wrap:
        moved, left = (moved, tf.zeros_like(left)) if step > 0 else (tf.zeros_like(moved), left)
    return settle(x.mesh, tf.concat([left, moved], axis), x.shape, [dim])


def _whole_numbers(indices: Tensor, operation_name: str) -> tf.Tensor:
    """The values of indices, in a dtype that TensorFlow indexes by."""
    if not indices.dtype.is_integer:
        raise ShapeError(
            f"mtf.{operation_name} takes integer indices, not {indices.dtype.name} "
            f"{indices.shape}; cast them (mtf.to_int32)."
        )
    indexed_by = (tf.int32, tf.int64)
    return indices.value if indices.dtype in indexed_by else tf.cast(indices.value, tf.int64)


def _cut(value: tf.Tensor, axis: int, at: int, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Both parts of a value cut along one axis (`tf.split` does not run on a split dimension)."""
    sizes = value.shape.as_list()
    begin = [0] * len(sizes)
    first = tf.slice(value, begin, sizes[:axis] + [at] + sizes[axis + 1 :])
    begin[axis] = at
    return first, tf.slice(value, begin, sizes[:axis] + [size - at] + sizes[axis + 1 :])
