"""Bounding values, and gradients on their way back."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.mesh import Tensor


def soft_cap(x: Tensor, cap: float | None) -> Tensor:
    """Cap · tanh(x / cap): nearly x where it is small, and never beyond the cap.

    As the logits of Gemma 2 (Gemma Team 2024, section 2).

    Args:
        x: any floating tensor.
        cap: above 0; None for no bound.
    """
    return x if cap is None else mtf.tanh(x / cap) * cap


@configurable(module="mesh_tensorflow.layers")
def clip_activation_gradient(x: Tensor, clip_rms_norm: float | None = None) -> Tensor:
    """The tensor itself; the gradient that comes back is scaled down to a root mean square.

    Args:
        x: any floating tensor.
        clip_rms_norm: what the root mean square of the gradient is at the most; None for no bound.

    Raises:
        ConfigError: if the bound is not positive.
    """
    if clip_rms_norm is None:
        return x
    if clip_rms_norm <= 0:
        raise ConfigError(
            f"clip_activation_gradient.clip_rms_norm is {clip_rms_norm}; it must be positive, or "
            "None for no bound."
        )

    def clipped(x: Tensor, y: Tensor, dy: Tensor) -> list[Tensor]:
        norm = mtf.sqrt(mtf.reduce_mean(mtf.square(mtf.to_float(dy))))
        factor = mtf.reciprocal(mtf.maximum(norm / clip_rms_norm, 1.0))
        return [dy * mtf.cast(factor, dy.dtype)]

    return mtf.custom_gradient(mtf.identity, clipped, [x])
