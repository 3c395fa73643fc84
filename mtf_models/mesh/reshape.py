"""Renaming, reordering, splitting, merging and broadcasting dimensions: the ways to re-lay."""

from __future__ import annotations

import itertools

import tensorflow as tf

from mtf_models.errors import ShapeError
from mtf_models.mesh.dimension import (
    Dimension,
    DimensionLike,
    Shape,
    ShapeLike,
    convert_to_dimension,
    convert_to_shape,
)
from mtf_models.mesh.tensor import Tensor, make, operation, sizes

Group = tuple[list[Dimension], list[Dimension]]


def transposed_value(x: Tensor, shape: Shape) -> tf.Tensor:
    """The value of `x` with its axes in the order of `shape`, which has the same dimensions."""
    if x.shape == shape:
        return x.value
    return tf.transpose(x.value, [x.shape.axis(d) for d in shape])


def broadcast_value(x: Tensor, shape: Shape, leading: bool = True) -> tf.Tensor:
    """The value of `x` with one axis for each dimension of `shape`, of size 1 where it lacks it.

    Args:
        x: of some of these dimensions.
        shape: in which order.
        leading: whether there are axes before the first dimension of `x` too. Operations on two
            values do without; DTensor does not where there are three.

    Raises:
        ShapeError: if `x` has a dimension that `shape` lacks, or has in another size.
    """
    if x.shape == shape:
        return x.value
    extra = [d for d in x.shape if d not in shape]
    if extra:
        raise ShapeError(
            f"{x.shape} cannot be broadcast to {shape}: it has {', '.join(map(str, extra))}. "
            "Reduce, rename or resize that dimension first."
        )
    ordered = Shape([d for d in shape if d in x.shape])
    value = transposed_value(x, ordered)
    wanted = shape if leading else itertools.dropwhile(lambda dim: dim not in x.shape, shape)
    for axis, dim in enumerate(wanted):
        if dim not in x.shape:
            value = tf.expand_dims(value, axis)
    return value


@operation
def broadcast(x: Tensor, shape: ShapeLike) -> Tensor:
    """Repeats `x` along the dimensions of `shape` that it lacks."""
    shape = convert_to_shape(shape)
    if x.shape == shape:
        return x
    value = tf.broadcast_to(broadcast_value(x, shape), sizes(shape))
    return make(x.mesh, value, shape)


@operation
def transpose(x: Tensor, shape: ShapeLike) -> Tensor:
    """Reorders the dimensions.

    Raises:
        ShapeError: if `shape` has other dimensions.
    """
    shape = convert_to_shape(shape)
    if set(shape.dims) != set(x.shape.dims):
        raise ShapeError(f"{x.shape} cannot be transposed to {shape}: the dimensions differ.")
    return make(x.mesh, transposed_value(x, shape), shape)


@operation
def rename_dimension(x: Tensor, old_name: str, new_name: str) -> Tensor:
    """Gives a dimension another name; the tensor is laid out by the rules for the new one."""
    return _renamed(x, x.shape.rename_dimension(old_name, new_name))


@operation
def reshape(x: Tensor, shape: ShapeLike) -> Tensor:
    """Splits, merges and renames dimensions, elements in order, and re-lays the result.

    This is the one primitive of re-layout: where a split moves from one dimension to another the
    devices exchange data. A split that stays on the outermost factor of a split or merged
    dimension stays in place; any other dimension that is taken apart is made whole first.

    Args:
        x: any tensor.
        shape: a shape of the same number of elements.

    Raises:
        ShapeError: if the numbers of elements differ.
    """
    shape = convert_to_shape(shape)
    if shape.size != x.shape.size:
        raise ShapeError(
            f"{x.shape} has {x.shape.size} elements and {shape} has {shape.size}: a reshape keeps "
            "their number."
        )
    mesh = x.mesh
    if x.shape.to_integer_list == shape.to_integer_list:
        return _renamed(x, shape)
    whole_before, whole_after = _dimensions_to_unsplit(x, shape)
    value = mesh.pin(x.value, x.shape, whole_before) if whole_before else x.value
    value = tf.reshape(value, sizes(shape))
    return make(mesh, mesh.pin(value, shape, whole_after), shape)


def replace_dimensions(
    x: Tensor | Shape, old: DimensionLike | list, new: DimensionLike | list
) -> Tensor | Shape:
    """Reshapes the adjacent dimensions `old` into `new`.

    Args:
        x: a tensor or a shape.
        old: a dimension or adjacent dimensions of `x`, in order.
        new: a dimension or several, of the same number of elements.

    Raises:
        ShapeError: if `old` is not a run of dimensions of `x`.
    """
    if isinstance(x, Tensor):
        return reshape(x, replace_dimensions(x.shape, old, new))
    old_dims, new_dims = _as_list(old), _as_list(new)
    dims = list(x.dims)
    for at in range(len(dims)):
        if dims[at : at + len(old_dims)] == old_dims:
            return Shape(dims[:at] + new_dims + dims[at + len(old_dims) :])
    raise ShapeError(f"{Shape(old_dims)} is not a run of dimensions of {x}.")


def combined_dimension(dims: list[Dimension], name: str | None = None) -> Dimension:
    """One dimension of the size of all, called `name` or like the first."""
    return Dimension(name or dims[0].name, Shape(dims).size)


def _renamed(x: Tensor, shape: Shape) -> Tensor:
    """The value of `x` under other names of the same sizes, laid out by the rules for those."""
    mesh = x.mesh
    value = mesh.engine.move(x.value, mesh.layout(x.shape), mesh.layout(shape))
    return Tensor(mesh, shape, value)


def _as_list(dims: DimensionLike | list) -> list[Dimension]:
    single = isinstance(dims, Dimension) or isinstance(dims, tuple) and isinstance(dims[0], str)
    return [convert_to_dimension(d) for d in ([dims] if single else dims)]


def _dimensions_to_unsplit(x: Tensor, shape: Shape) -> tuple[list[Dimension], list[Dimension]]:
    """Which dimensions of the operand and of the result must be whole while reshaping."""
    if x.mesh.size == 1:
        return [], []
    axis_before = dict(zip(x.shape, x.mesh.layout(x.shape), strict=True))
    axis_after = dict(zip(shape, x.mesh.layout(shape), strict=True))
    whole_before: list[Dimension] = []
    whole_after: list[Dimension] = []
    for before, after in _groups(x.shape, shape):
        stays = axis_before[before[0]] == axis_after[after[0]] if before and after else False
        whole_before += before[1:] if stays else before
        whole_after += after[1:] if stays else after
    return whole_before, whole_after


def _groups(a: Shape, b: Shape) -> list[Group]:
    """Cuts two shapes of equal size into the smallest runs of dimensions of equal size.

    Dimensions of size 1 are in no run: nothing is split there, wherever they are.
    """
    groups: list[Group] = []
    left, right = ([d for d in shape if d.size > 1] for shape in (a, b))
    while left or right:
        taken_left, taken_right = left[:1], right[:1]
        left, right = left[1:], right[1:]
        while Shape(taken_left).size != Shape(taken_right).size or not (taken_left and taken_right):
            smaller_left = Shape(taken_left).size <= Shape(taken_right).size
            if (smaller_left and left) or not right:
                if not left:
                    break
                taken_left.append(left.pop(0))
            else:
                taken_right.append(right.pop(0))
        groups.append((taken_left, taken_right))
    return groups
