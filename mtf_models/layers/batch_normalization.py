"""Normalisation by the statistics of a batch."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.mesh import Tensor, VariableDType
from mtf_models.mesh.initializers import ones, zeros


def batch_norm(
    x: Tensor,
    is_training: bool,
    momentum: float,
    epsilon: float = 1e-9,
    dims_idx_start: int = 0,
    dims_idx_end: int = -1,
    init_zero: bool = False,
    variable_dtype: VariableDType | None = None,
    name: str | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Normalises over some dimensions with moving statistics (Ioffe and Szegedy 2015).

    Args:
        x: any floating tensor.
        is_training: whether to use this batch's statistics; else the moving ones.
        momentum: the part of the moving statistics that stays in an update.
        epsilon: keeps the root away from zero.
        dims_idx_start: the first dimension, by number, that is averaged over.
        dims_idx_end: the first after it that is not.
        init_zero: whether the scale begins as 0, else as 1.
        variable_dtype: dtypes of the variables; by default float32, activations as `x`.
        name: the variable scope, by default "batch_norm"; in it `batch_norm_scale`,
            `batch_norm_bias`, `bn_moving_mean` (at first 0) and `bn_moving_variance` (at first 1),
            which are not trainable, each with the dimensions that are left.

    Returns:
        The normalised tensor, and the new values of the moving statistics by their names, which
        the caller assigns after the step; without training there are none.
    """
    averaged = list(x.shape.dims[dims_idx_start:dims_idx_end])
    kept = x.shape - averaged
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    statistics = mtf.VariableDType()
    with mtf.variable_scope(name or "batch_norm") as scope:
        first = zeros() if init_zero else ones()
        scale = mtf.get_variable(x.mesh, "batch_norm_scale", kept, dtype, first)
        bias = mtf.get_variable(x.mesh, "batch_norm_bias", kept, dtype, zeros())
        mean, variance = (
            mtf.get_variable(x.mesh, part, kept, statistics, initializer, trainable=False)
            for part, initializer in (("bn_moving_mean", zeros()), ("bn_moving_variance", ones()))
        )
    wide, updates = mtf.to_float(x), {}
    if is_training:
        moving = {"bn_moving_mean": mean, "bn_moving_variance": variance}
        mean = mtf.reduce_mean(wide, output_shape=kept)
        variance = mtf.reduce_mean(mtf.square(wide - mean), output_shape=kept)
        for (part, old), new in zip(moving.items(), (mean, variance), strict=True):
            updates[f"{scope}/{part}"] = mtf.stop_gradient(old * momentum + new * (1 - momentum))
    normal = (wide - mean) * mtf.rsqrt(variance + epsilon)
    return mtf.cast(normal, x.dtype) * scale + bias, updates
