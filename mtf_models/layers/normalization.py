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
    use_scale: bool = True,
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
        use_scale: whether there is a scale; without one there is no variable.

    Raises:
        ConfigError: if the percentage is not over 0 and at most 100.
    """
    if use_scale:
        scale = _variable(x, name, "scale", Shape([dim]), variable_dtype, ones())
    else:
        scale = mtf.ones(x.mesh, Shape(), x.dtype)
    return _over_root_mean_square(x, scale, dim, epsilon, percentage)


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
    return _over_root_mean_square(x, scale, dim, epsilon)


def layer_norm(
    x: Tensor,
    dim: Dimension,
    variable_dtype: VariableDType | None = None,
    epsilon: float = 1e-6,
    name: str = "layer_prepostprocess",
    use_bias: bool = True,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias (Ba et al. 2016), in float32.

    Args:
        x: has `dim`.
        dim: the dimension to normalise over.
        variable_dtype: dtypes of `<name>/layer_norm/layer_norm_scale` and `layer_norm_bias`; by
            default float32 variables, activations as `x`.
        epsilon: keeps the root away from zero.
        name: the variable scope.
        use_bias: whether a bias is added.
    """
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    scope, shape = f"{name}/layer_norm", Shape([dim])
    scale = _variable(x, scope, "layer_norm_scale", shape, dtype, ones())
    wide = mtf.to_float(x)
    centred = wide - mtf.reduce_mean(wide, reduced_dim=dim)
    inverse = mtf.rsqrt(mtf.reduce_mean(mtf.square(centred), reduced_dim=dim) + epsilon)
    y = mtf.cast(centred * inverse, x.dtype) * scale
    return y + _variable(x, scope, "layer_norm_bias", shape, dtype, zeros()) if use_bias else y


def _over_root_mean_square(
    x: Tensor, scale: Tensor, dim: Dimension, epsilon: float, percentage: float = 100.0
) -> Tensor:
    """X / sqrt(mean(x²) + epsilon) * scale, in float32 and with the gradient written out."""
    if not 0.0 < percentage <= 100.0:
        raise ConfigError(f"A norm over {percentage} % of {dim}: give over 0, at most 100.")
    count = max(1, int(dim.size * percentage / 100))
    saved: dict[str, Tensor] = {}

    def counted(x: Tensor) -> Tensor:
        """Zero in the part of `dim` that is not counted."""
        if count == dim.size:
            return x
        # By a mask, since a part of a split dimension need not divide.
        return x * mtf.to_float(mtf.less(mtf.mtf_range(x.mesh, dim), count))

    def forward(x: Tensor, scale: Tensor) -> list[Tensor]:
        wide = mtf.to_float(x)
        mean = mtf.reduce_sum(counted(mtf.square(wide)), reduced_dim=dim) / float(count)
        inverse = mtf.rsqrt(mean + epsilon)
        return [mtf.cast(wide * inverse * mtf.to_float(scale), x.dtype), inverse]

    def backward(x: Tensor, scale: Tensor, inverse: Tensor, dy: Tensor) -> list[Tensor]:
        normed = mtf.to_float(x) * inverse
        slope = mtf.to_float(dy)
        d_scale = mtf.reduce_sum(slope * normed, output_shape=scale.shape)
        slope *= mtf.to_float(scale)
        along = mtf.reduce_sum(slope * normed, reduced_dim=dim) / float(count)
        d_x = mtf.reduce_sum((slope - counted(normed) * along) * inverse, output_shape=x.shape)
        return [mtf.cast(d_x, x.dtype), mtf.cast(d_scale, scale.dtype)]

    key = "over root mean square", dim, epsilon, count

    def norm(x: Tensor, scale: Tensor) -> Tensor:
        y, saved["inverse"] = mtf.fused(key, forward, [x, scale])
        return y

    def gradient(x: Tensor, scale: Tensor, y: Tensor, dy: Tensor) -> list[Tensor]:
        return mtf.fused((*key, "gradient"), backward, [x, scale, saved["inverse"], dy])

    return mtf.custom_gradient(norm, gradient, [x, scale])


def _variable(
    x: Tensor, scope: str, name: str, shape: Shape, dtype: VariableDType, initial: Initializer
) -> Tensor:
    with mtf.variable_scope(scope):
        return mtf.get_variable(x.mesh, name, shape, dtype, initial)
