"""Cutting entries off a dimension, adding entries at its ends, and writing over one."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from mtf_models.errors import refuse
from mtf_models.mesh import scopes
from mtf_models.mesh.dimension import Dimension
from mtf_models.mesh.elementwise import equal, where
from mtf_models.mesh.indexing import mtf_range
from mtf_models.mesh.reshape import transpose
from mtf_models.mesh.tensor import Tensor, make, operation, settle, size_value, sizes, unsplit


@operation
def slice(x: Tensor, begin: int, size: int, slice_dim_name: str) -> Tensor:
    """The `size` entries of a dimension from `begin` on.

    Args:
        x: any tensor.
        begin: the first entry that is taken.
        size: how many are taken.
        slice_dim_name: the dimension, by name; the result has it in the size `size`.

    Raises:
        ShapeError: if they are not all there.
    """
    dim = x.shape.get_dim_by_name(slice_dim_name)
    inside = 0 <= begin and 1 <= size and begin + size <= dim.size
    refuse(
        f"slice of {x.shape}",
        [f"entries {begin} to {begin + size} are not all in {dim}" if not inside else None],
    )
    begins = [size_value(begin) if d == dim else 0 for d in x.shape]
    shape = x.shape.resize_dimension(dim.name, size)
    value = tf.slice(unsplit(x, [dim]), begins, sizes(shape))
    return settle(x.mesh, value, shape, [shape.get_dim_by_name(dim.name)])


@operation
def pad(x: Tensor, paddings: Sequence[int], dim_name: str, pad_value: float = 0) -> Tensor:
    """Adds entries at both ends of a dimension.

    Args:
        x: any tensor.
        paddings: how many before and how many after.
        dim_name: the dimension, by name.
        pad_value: what they are filled with.

    Raises:
        ShapeError: if `paddings` are not two numbers from 0.
    """
    dim = x.shape.get_dim_by_name(dim_name)
    paddings = list(paddings)
    fits = len(paddings) == 2 and min(paddings) >= 0
    refuse(
        f"pad of {x.shape}",
        [f"paddings {paddings} are not [before, after] from 0" if not fits else None],
    )
    margins = [list(map(size_value, paddings)) if d == dim else [0, 0] for d in x.shape]
    shape = x.shape.resize_dimension(dim_name, dim.size + sum(paddings))
    fill = bool(pad_value) if x.dtype.is_bool else pad_value
    value = tf.pad(unsplit(x, [dim]), margins, constant_values=fill)
    return settle(x.mesh, value, shape, [shape.get_dim_by_name(dim_name)])


@operation
def with_entry(x: Tensor, entry: Tensor, index: Tensor, dim: Dimension) -> Tensor:
    """A tensor with another entry at one place of a dimension.

    On one device only the entry is written where `x` is used for nothing else.

    Args:
        x: any tensor.
        entry: of its dtype and its dimensions but `dim`, in any order.
        index: int32 scalar, the place; out of range is not allowed.
        dim: a dimension of `x`.

    Raises:
        ShapeError: if `entry` has other dimensions.
    """
    alike = set(entry.shape) == set(x.shape - dim)
    refuse(
        f"with_entry of {x.shape} along {dim}",
        [f"the entry is {entry.shape}, not {x.shape - dim}" if not alike else None],
    )
    if scopes.in_kernel() or not x.mesh.engine.writes_entries:  # XLA writes at fixed places only.
        return where(equal(mtf_range(x.mesh, dim), index), entry, x, output_shape=x.shape)
    axis = x.shape.axis(dim)
    others = sum(1 << i for i in range(x.shape.ndims) if i != axis)
    begins, ends = (
        tf.stack([at if i == axis else 0 for i in range(x.shape.ndims)])
        for at in (index.value, index.value + 1)
    )
    value = tf.raw_ops.TensorStridedSliceUpdate(
        input=x.value,
        begin=begins,
        end=ends,
        strides=[1] * x.shape.ndims,
        value=tf.expand_dims(transpose(entry, x.shape - dim).value, axis),
        begin_mask=others,
        end_mask=others,
    )
    return make(x.mesh, value, x.shape)
