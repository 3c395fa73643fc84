"""Normalisation over a named dimension."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import ones


def rms_norm(
    x: Tensor,
    dim: Dimension,
    variable_dtype: VariableDType,
    epsilon: float = 1e-6,
    name: str = "rms_norm",
) -> Tensor:
    """X / sqrt(mean(x²) + epsilon) * scale (Zhang and Sennrich 2019), statistics in float32.

    Args:
        x: has `dim`.
        dim: the dimension to normalise over.
        variable_dtype: dtypes of `<name>/scale`.
        epsilon: keeps the root away from zero.
        name: the variable scope.
    """
    with mtf.variable_scope(name):
        scale = mtf.get_variable(x.mesh, "scale", Shape([dim]), variable_dtype, ones())
    wide = mtf.to_float(x)
    inverse = mtf.rsqrt(mtf.reduce_mean(mtf.square(wide), reduced_dim=dim) + epsilon)
    return mtf.cast(wide * inverse, x.dtype) * scale
