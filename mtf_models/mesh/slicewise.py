"""A user's own TensorFlow function as an operation on named tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from mtf_models.errors import refuse
from mtf_models.mesh.dimension import Dimension, Shape, ShapeLike, convert_to_dimension
from mtf_models.mesh.dtype import DTypeLike, as_dtype
from mtf_models.mesh.elementwise import binary_shape
from mtf_models.mesh.own_gradient import Backward, with_own_gradient
from mtf_models.mesh.reshape import broadcast, transpose
from mtf_models.mesh.tensor import Tensor, make, operation, settle, unsplit


class Applied(NamedTuple):
    """One application of a function, as its gradient sees it."""

    inputs: list[Tensor]
    outputs: list[Tensor]


GradFunction = Callable[..., Sequence[Tensor]]
"""Takes an `Applied` and the gradient of each result; returns one for each input."""


@operation
def slicewise(
    tf_fn: Callable[..., Any],
    xs: Sequence[Tensor],
    output_shape: ShapeLike | Sequence[Shape] | None = None,
    output_dtype: DTypeLike | Sequence[DTypeLike] | None = None,
    splittable_dims: str | Sequence[Dimension] | None = None,
    grad_function: GradFunction | None = None,
) -> Tensor | list[Tensor]:
    """Applies a TensorFlow function to values whose axes are the dimensions, in order.

    The function must be made of what TensorFlow can lay out: on a mesh, in a compiled step, a few
    of its operations are refused (`docs/language.md`).

    Args:
        tf_fn: takes as many `tf.Tensor`s as there are `xs`, returns one or several.
        xs: what it is applied to.
        output_shape: the named shape of the result, by default that of the first of `xs`; a list
            of `Shape`s if there are several results.
        output_dtype: what dtype each result must have; by default any.
        splittable_dims: along which the function may work on parts: what it gives for an entry
            then depends on that entry only. "all", or a list; by default none. The others are
            made whole for it.
        grad_function: the derivative, if it is not to be TensorFlow's: takes an object with
            `inputs` and `outputs`, and the gradient of each result.

    Returns:
        A tensor, or a list of them where `output_shape` is a list of shapes.

    Raises:
        ShapeError: if a result has another shape or dtype than was said.
    """
    xs = list(xs)
    several = _is_list_of_shapes(output_shape)
    single = xs[0].shape if output_shape is None else output_shape
    shapes = list(output_shape) if several else [Shape(single)]
    mesh = xs[0].mesh
    split = _splittable(splittable_dims, [*(x.shape for x in xs), *shapes])

    def whole(shape: Shape) -> list[Dimension]:
        return [d for d in shape if d not in split]

    def results_of(*values: tf.Tensor) -> list[tf.Tensor]:
        inputs = [
            unsplit(Tensor(mesh, x.shape, value), whole(x.shape))
            for x, value in zip(xs, values, strict=True)
        ]
        found = tf_fn(*inputs)
        found = list(found) if isinstance(found, list | tuple) else [found]
        _check(found, shapes, output_dtype)
        return [
            settle(mesh, y, shape, whole(shape)).value
            for y, shape in zip(found, shapes, strict=True)
        ]

    values = [x.value for x in xs]
    if grad_function is not None:
        results_of = _with_gradient(results_of, grad_function, xs, shapes)
    results = [make(mesh, y, s) for y, s in zip(results_of(*values), shapes, strict=True)]
    return results if several else results[0]


@operation
def cwise(
    tf_fn: Callable[..., Any],
    xs: Sequence[Tensor],
    output_dtype: DTypeLike | None = None,
    grad_function: GradFunction | None = None,
) -> Tensor:
    """Applies a TensorFlow function of elements, which may be split along every dimension.

    Args:
        tf_fn: takes `tf.Tensor`s of one shape, works on each element alone.
        xs: tensors; they are broadcast to one shape first.
        output_dtype: what dtype the result must have; by default any.
        grad_function: as for `slicewise`.

    Raises:
        ShapeError: if the result has another shape or dtype.
    """
    shape = xs[0].shape
    for x in xs[1:]:
        shape = binary_shape(shape, x.shape)
    xs = [broadcast(x, shape) for x in xs]
    return slicewise(tf_fn, xs, shape, output_dtype, "all", grad_function)


def _with_gradient(
    function: Callable[..., list[tf.Tensor]],
    grad_function: GradFunction,
    xs: Sequence[Tensor],
    shapes: Sequence[Shape],
) -> Callable[..., list[tf.Tensor]]:
    mesh = xs[0].mesh

    @with_own_gradient
    def run(*values: tf.Tensor) -> tuple[list[tf.Tensor], Backward]:
        results = function(*values)

        def backward(*dys: tf.Tensor) -> list[tf.Tensor]:
            applied = Applied(
                [Tensor(mesh, x.shape, v) for x, v in zip(xs, values, strict=True)],
                [Tensor(mesh, s, y) for s, y in zip(shapes, results, strict=True)],
            )
            with mesh.running("slicewise"):
                grads = [make(mesh, dy, s) for dy, s in zip(dys, shapes, strict=True)]
                found = grad_function(applied, *grads)
                return [transpose(g, x.shape).value for g, x in zip(found, xs, strict=True)]

        return results, backward

    return run


def _is_list_of_shapes(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Shape)


def _splittable(dims: str | Sequence[Dimension] | None, shapes: Sequence[Shape]) -> set[Dimension]:
    known = {d for shape in shapes for d in shape}
    if dims == "all":
        return known
    wanted = {convert_to_dimension(d) for d in dims or ()}
    unknown = [str(d) for d in wanted if d not in known]
    refuse("slicewise", [f"no tensor has {', '.join(unknown)}" if unknown else None])
    return wanted


def _check(
    found: Sequence[tf.Tensor],
    shapes: Sequence[Shape],
    dtypes: DTypeLike | Sequence[DTypeLike] | None,
) -> None:
    listed = dtypes if isinstance(dtypes, list | tuple) else [dtypes] * len(shapes)
    faults = []
    if len(found) != len(shapes) or len(listed) != len(shapes):
        faults = [f"{len(shapes)} results were announced, the function gave {len(found)}"]
    else:
        for y, shape, dtype in zip(found, shapes, listed, strict=True):
            if y.shape.as_list() != shape.to_integer_list:
                faults.append(f"a result of shape {y.shape.as_list()} is not {shape}")
            if dtype is not None and y.dtype != as_dtype(dtype):
                faults.append(f"a result is {y.dtype.name}, not {as_dtype(dtype).name}")
    refuse("slicewise", faults)
