"""Reductions over named dimensions, and softmax."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import tensorflow as tf

from mtf_models.errors import ShapeError
from mtf_models.mesh import kernel_reductions, scopes
from mtf_models.mesh.dimension import (
    Dimension,
    DimensionLike,
    Shape,
    ShapeLike,
    convert_to_dimension,
    convert_to_shape,
)
from mtf_models.mesh.elementwise import exp, log, maximum, stop_gradient
from mtf_models.mesh.reshape import transpose
from mtf_models.mesh.tensor import Tensor, make, operation

ReducedDims = DimensionLike | Iterable[DimensionLike]


Function = Callable[[tf.Tensor, list[int]], tf.Tensor]


def _reduction(
    name: str, function: Function, in_kernel: Function | None = None
) -> Callable[..., Tensor]:
    def apply(
        x: Tensor,
        *,
        output_shape: ShapeLike | None = None,
        reduced_dim: ReducedDims | None = None,
    ) -> Tensor:
        output = reduced_shape(x.shape, convert_to_shape(output_shape), reduced_dim)
        kept = Shape([d for d in x.shape if d in output])
        axes = [i for i, d in enumerate(x.shape) if d not in output]
        if not axes:
            return transpose(x, output)
        reduce = in_kernel if in_kernel is not None and scopes.in_kernel() else function
        return transpose(make(x.mesh, reduce(x.value, axes), kept), output)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""Computes `{name}` over dimensions.

    Args:
        x: any tensor.
        output_shape: the dimensions that stay, in any order.
        reduced_dim: instead, the dimension or dimensions to reduce. With neither, all are.

    Raises:
        ShapeError: if a dimension is not one of the tensor's.
    """
    return operation(apply)


def _mean(value: tf.Tensor, axes: list[int]) -> tf.Tensor:
    if value.dtype.is_integer:
        raise ShapeError(
            f"The mean of {value.dtype.name} is no whole number; cast the tensor (mtf.to_float)."
        )
    return tf.reduce_mean(value, axes)


reduce_sum = _reduction("reduce_sum", tf.reduce_sum, kernel_reductions.row_sum)
reduce_mean = _reduction("reduce_mean", _mean, kernel_reductions.row_mean)
reduce_max = _reduction("reduce_max", tf.reduce_max, kernel_reductions.row_max)
reduce_min = _reduction("reduce_min", tf.reduce_min)
reduce_all = _reduction("reduce_all", tf.reduce_all)
reduce_any = _reduction("reduce_any", tf.reduce_any)


def reduced_shape(shape: Shape, output: Shape | None, reduced: ReducedDims | None) -> Shape:
    """What a reduction leaves: `output`, or `shape` without `reduced`, or nothing."""
    if output is None and reduced is None:
        return Shape()
    removed = _dims(reduced)
    unknown = [d for d in [*(output or ()), *removed] if d not in shape]
    if unknown:
        raise ShapeError(f"{shape} has no {', '.join(map(str, unknown))} to keep or reduce.")
    if output is None:
        return shape - removed
    if any(d in output for d in removed):
        raise ShapeError(f"A reduction cannot both keep {output} and reduce {Shape(removed)}.")
    return output


def _dims(given: ReducedDims | None) -> list[Dimension]:
    """One dimension or several, as a list."""
    is_one = isinstance(given, Dimension | str) or (
        isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str)
    )
    return [convert_to_dimension(d) for d in ([given] if is_one else given or ())]


@operation
def reduce_logsumexp(
    x: Tensor, reduced_dim: DimensionLike, extra_logit: Tensor | float | None = None
) -> Tensor:
    """log(sum(exp(x))) over one dimension, without overflow.

    Args:
        x: any floating tensor.
        reduced_dim: the dimension to sum over.
        extra_logit: one more logit that takes part in the sum, a number or a tensor without
            `reduced_dim`.
    """
    reduced_dim = convert_to_dimension(reduced_dim)
    if extra_logit is None:
        function = kernel_reductions.row_logsumexp if scopes.in_kernel() else tf.reduce_logsumexp
        value = function(x.value, x.shape.axis(reduced_dim))
        return make(x.mesh, value, x.shape - reduced_dim)
    # Written out: where all of x is -inf, the logarithm of its own sum would have no gradient.
    peak = stop_gradient(maximum(reduce_max(x, reduced_dim=reduced_dim), extra_logit))
    total = reduce_sum(exp(x - peak), reduced_dim=reduced_dim) + exp(extra_logit - peak)
    return log(total) + peak


@operation
def softmax(
    x: Tensor, reduced_dim: DimensionLike, extra_logit: Tensor | float | None = None
) -> Tensor:
    """exp(x) over its sum along `reduced_dim`; an extra logit joins the sum only."""
    reduced_dim = convert_to_dimension(reduced_dim)
    # TensorFlow's softmax on CPUs takes no more dimensions.
    if extra_logit is None and x.shape.ndims <= 5:
        return make(x.mesh, tf.nn.softmax(x.value, axis=x.shape.axis(reduced_dim)), x.shape)
    return exp(log_softmax(x, reduced_dim, extra_logit))


@operation
def log_softmax(
    x: Tensor, reduced_dim: DimensionLike, extra_logit: Tensor | float | None = None
) -> Tensor:
    """The logarithm of `softmax`."""
    return x - reduce_logsumexp(x, reduced_dim, extra_logit)
