"""Rotary position embedding."""

from __future__ import annotations

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Shape, Tensor


def rotated(x: Tensor, position: Tensor, dim: Dimension, base: float) -> Tensor:
    """Queries or keys turned by angles in proportion to their positions (Su et al. 2021).

    The products of turned queries and keys depend on the difference of their positions only. Entry
    i of the first half of `dim` is turned with entry i of the second half, by the angle
    position * base^(-2i/dim).

    Args:
        x: [..., length, ..., dim].
        position: [length] int32.
        dim: of even size.
        base: of the wavelengths, which go from 2π to nearly base * 2π.
    """
    half = dim.size // 2
    rates = base ** (-np.arange(half) / half)
    rate = mtf.import_tf_tensor(
        x.mesh, np.concatenate([rates, rates]).astype(np.float32), Shape([dim])
    )
    angle = mtf.multiply(mtf.to_float(position), rate, output_shape=position.shape + dim)
    wide = mtf.to_float(x)
    # (first, second) to (-second, first): halves change places, the new first one its sign.
    sign = mtf.import_tf_tensor(
        x.mesh, np.repeat([-1.0, 1.0], half).astype(np.float32), Shape([dim])
    )
    across = mtf.multiply(mtf.shift(wide, half, dim, wrap=True), sign, output_shape=x.shape)
    turned = mtf.multiply(wide, mtf.cos(angle), output_shape=x.shape)
    turned += mtf.multiply(across, mtf.sin(angle), output_shape=x.shape)
    return mtf.cast(turned, x.dtype)
