"""Normalisation over a named dimension."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import Initializer, ones, zeros


def rms_norm(
    x: Tensor,
    dim: Dimension,
    variable_dtype: VariableDType,
    epsilon: float = 1e-6,
    name: str = "rms_norm",
    percentage: float = 100.0,
) -> Tensor:
    """X / sqrt(mean(x²) + epsilon) * scale (Zhang and Sennrich 2019), statistics in float32.

    Args:
        x: has `dim`.
        dim: the dimension to normalise over.
        variable_dtype: dtypes of `<name>/scale`.
        epsilon: keeps the root away from zero.
        name: the variable scope.
        percentage: the part of `dim`, from its beginning, that the mean is taken over (pRMSNorm in
            the same paper).

    Raises:
        ConfigError: if the percentage is not over 0 and at most 100.
    """
    scale = _variable(x, name, "scale", Shape([dim]), variable_dtype, ones())
    return _over_root_mean_square(x, dim, epsilon, percentage) * scale


def scale_norm(
    x: Tensor,
    dim: Dimension,
    variable_dtype: VariableDType,
    epsilon: float = 1e-6,
    name: str = "scale_norm",
) -> Tensor:
    """`rms_norm` with one learned scale for the whole dimension (Nguyen and Salazar 2019).

    Args:
        x: has `dim`.
        dim: the dimension to normalise over.
        variable_dtype: dtypes of `<name>/scale`, a scalar.
        epsilon: keeps the root away from zero.
        name: the variable scope.
    """
    scale = _variable(x, name, "scale", Shape(), variable_dtype, ones())
    return _over_root_mean_square(x, dim, epsilon) * scale


def layer_norm(
    x: Tensor,
    dim: Dimension,
    variable_dtype: VariableDType | None = None,
    epsilon: float = 1e-6,
    name: str = "layer_prepostprocess",
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias (Ba et al. 2016), in float32.

    Args:
        x: has `dim`.
        dim: the dimension to normalise over.
        variable_dtype: dtypes of `<name>/layer_norm/layer_norm_scale` and `layer_norm_bias`; by
            default float32 variables, activations as `x`.
        epsilon: keeps the root away from zero.
        name: the variable scope.
    """
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    scope, shape = f"{name}/layer_norm", Shape([dim])
    scale = _variable(x, scope, "layer_norm_scale", shape, dtype, ones())
    bias = _variable(x, scope, "layer_norm_bias", shape, dtype, zeros())
    wide = mtf.to_float(x)
    centred = wide - mtf.reduce_mean(wide, reduced_dim=dim)
    inverse = mtf.rsqrt(mtf.reduce_mean(mtf.square(centred), reduced_dim=dim) + epsilon)
    return mtf.cast(centred * inverse, x.dtype) * scale + bias


def _over_root_mean_square(
    x: Tensor, dim: Dimension, epsilon: float, percentage: float = 100.0
) -> Tensor:
    if not 0.0 < percentage <= 100.0:
        raise ConfigError(f"A norm over {percentage} % of {dim}: give over 0, at most 100.")
    wide = mtf.to_float(x)
    squares, count = mtf.square(wide), dim.size
    if percentage < 100.0:
        count = max(1, int(dim.size * percentage / 100))
        # By a mask, since a part of a split dimension need not divide.
        squares *= mtf.to_float(mtf.less(mtf.mtf_range(x.mesh, dim), count))
    inverse = mtf.rsqrt(mtf.reduce_sum(squares, reduced_dim=dim) / float(count) + epsilon)
    return mtf.cast(wide * inverse, x.dtype)


def _variable(
    x: Tensor, scope: str, name: str, shape: Shape, dtype: VariableDType, initial: Initializer
) -> Tensor:
    with mtf.variable_scope(scope):
        return mtf.get_variable(x.mesh, name, shape, dtype, initial)
