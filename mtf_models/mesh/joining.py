"""Joining tensors along a dimension, old or new, and taking them apart again."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from mtf_models.errors import refuse
from mtf_models.mesh.dimension import (
    Dimension,
    DimensionLike,
    Shape,
    convert_to_dimension,
)
from mtf_models.mesh.reshape import transpose
from mtf_models.mesh.slicing import slice
from mtf_models.mesh.tensor import Tensor, make, operation, settle, unsplit


@operation
def concat(xs: Sequence[Tensor], concat_dim_name: str) -> Tensor:
    """Puts tensors one after the other along a dimension.

    Args:
        xs: tensors of one dtype and the same dimensions but for the size of one.
        concat_dim_name: that dimension.

    Returns:
        The dimensions of the first tensor, `concat_dim_name` in the sum of the sizes.

    Raises:
        ShapeError: if the tensors have other differences.
    """
    xs = list(xs)
    name = concat_dim_name
    rests = [[d for d in x.shape if d.name != name] for x in xs]
    refuse(
        f"concat of {_listed(xs)} along {name}",
        [
            *(f"{x.shape} has no {name}" for x in xs if not x.shape.has(name)),
            _unequal([frozenset(rest) for rest in rests], "the other dimensions differ"),
            _unequal([x.dtype for x in xs], "the dtypes differ; cast the tensors"),
        ],
    )
    dims = [x.shape.get_dim_by_name(name) for x in xs]
    shape = xs[0].shape.resize_dimension(name, sum(d.size for d in dims))
    axis = shape.axis(shape.get_dim_by_name(name))
    ordered = [
        transpose(x, xs[0].shape.resize_dimension(name, d.size))
        for x, d in zip(xs, dims, strict=True)
    ]
    parts = [unsplit(x, [d]) for x, d in zip(ordered, dims, strict=True)]
    value = tf.concat(parts, axis) if len(parts) > 1 else parts[0]
    return settle(xs[0].mesh, value, shape, [shape.get_dim_by_name(name)])


@operation
def split(
    x: Tensor, split_dim: DimensionLike, num_or_size_splits: int | Sequence[int]
) -> list[Tensor]:
    """Cuts a dimension into parts.

    Args:
        x: has `split_dim`.
        split_dim: the dimension to cut.
        num_or_size_splits: the number of equal parts, or the sizes of the parts.

    Returns:
        Tensors with a dimension of the same name, smaller.

    Raises:
        ShapeError: if the parts do not add up to the dimension.
    """
    dim = convert_to_dimension(split_dim)
    x.shape.axis(dim)
    if isinstance(num_or_size_splits, int):
        count = num_or_size_splits
        fits = count > 0 and dim.size % count == 0
        sizes = [dim.size // count] * count if fits else []
    else:
        sizes = list(num_or_size_splits)
        fits = sum(sizes) == dim.size and min(sizes, default=0) > 0
    wrong = f"{dim} cannot be cut into {num_or_size_splits}; the sizes must add up to {dim.size}"
    refuse(f"split of {x.shape}", [wrong if not fits else None])
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    return [slice(x, begin, size, dim.name) for begin, size in zip(begins, sizes, strict=True)]


@operation
def stack(xs: Sequence[Tensor], dim_name: str, axis: int = 0) -> Tensor:
    """Puts tensors side by side along a new dimension.

    Args:
        xs: tensors of one dtype and shape, their dimensions in any order.
        dim_name: the new dimension, of size `len(xs)`.
        axis: its place among the dimensions; negative from the end.

    Raises:
        ShapeError: if the tensors differ in dimensions or dtype, have the new name already, or
            `axis` is no place.
    """
    xs = list(xs)
    places = xs[0].shape.ndims + 1
    refuse(
        f"stack of {_listed(xs)} along {dim_name}",
        [
            _unequal([frozenset(x.shape) for x in xs], "the dimensions differ"),
            _unequal([x.dtype for x in xs], "the dtypes differ; cast the tensors"),
            *(f"{x.shape} has {dim_name} already" for x in xs if x.shape.has(dim_name)),
            f"axis {axis} is not one of {places} places" if not -places <= axis < places else None,
        ],
    )
    axis %= places
    new = Dimension(dim_name, len(xs))
    dims = xs[0].shape.dims
    shape = Shape([*dims[:axis], new, *dims[axis:]])
    value = tf.stack([transpose(x, xs[0].shape).value for x in xs], axis)
    return settle(xs[0].mesh, value, shape, [new])


@operation
def unstack(x: Tensor, dim: DimensionLike) -> list[Tensor]:
    """Takes a tensor apart along a dimension: one tensor without it for each entry.

    Raises:
        ShapeError: if `x` has no such dimension.
    """
    dim = convert_to_dimension(dim)
    parts = tf.unstack(unsplit(x, [dim]), axis=x.shape.axis(dim))
    return [make(x.mesh, part, x.shape - dim) for part in parts]


def _unequal(values: Sequence[object], fault: str) -> str | None:
    return fault if len(set(values)) > 1 else None


def _listed(xs: Sequence[Tensor]) -> str:
    return ", ".join(f"{x.dtype.name} {x.shape}" for x in xs)
