"""What a stack does around its layers: norms, dropout, residual connections, masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError
from mtf_models.layers.clipping import clip_activation_gradient
from mtf_models.layers.noise import annealed_dropout
from mtf_models.layers.normalization import layer_norm, rms_norm, scale_norm
from mtf_models.mesh import Shape, Tensor
from mtf_models.mesh.initializers import constant
from mtf_models.transformer.context import Context

if TYPE_CHECKING:
    from mtf_models.transformer.stack import LayerStack

_MODULE = "mesh_tensorflow.transformer.transformer"


@configurable(module=_MODULE)
def sublayer_call_layer(x: Tensor, layer_stack: LayerStack, context: Context) -> Tensor:
    """Calls the layer on `x`, padding set to zero."""
    x = context.masked(x)
    with mtf.variable_scope(type(context.layer).__name__):
        return context.layer.call(context, x)


@configurable(module=_MODULE)
def sublayer_mask_padding(x: Tensor, layer_stack: LayerStack, context: Context) -> Tensor:
    """Sets padding to zero."""
    return context.masked(x)


@configurable(module=_MODULE)
def sublayer_rms_norm(
    x: Tensor,
    layer_stack: LayerStack,
    context: Context,
    epsilon: float = 1e-6,
    name: str = "rms_norm",
    use_scale: bool = True,
) -> Tensor:
    """See `layers.normalization.rms_norm`, over d_model."""
    dtype = context.variable_dtype
    return rms_norm(x, context.d_model, dtype, epsilon, name, use_scale=use_scale)


@configurable(module=_MODULE)
def sublayer_legacy_rms_norm(x: Tensor, layer_stack: LayerStack, context: Context) -> Tensor:
    """`sublayer_rms_norm` under the name that T5 1.0's checkpoints use inside a stack."""
    return sublayer_rms_norm(x, layer_stack, context, name="layer_norm")


@configurable(module=_MODULE)
def sublayer_legacy_final_rms_norm(x: Tensor, layer_stack: LayerStack, context: Context) -> Tensor:
    """`sublayer_rms_norm` under the name that T5 1.0's checkpoints use at the end of a stack."""
    return sublayer_rms_norm(x, layer_stack, context, name="final_layer_norm")


@configurable(module=_MODULE)
def sublayer_rms_norm_subsampled(
    x: Tensor,
    layer_stack: LayerStack,
    context: Context,
    percentage: float = 100.0,
    epsilon: float = 1e-6,
) -> Tensor:
    """`sublayer_rms_norm` with the mean over the first `percentage` of d_model."""
    name = "layer_norm_subsampled"
    return rms_norm(x, context.d_model, context.variable_dtype, epsilon, name, percentage)


@configurable(module=_MODULE)
def sublayer_scale_norm(
    x: Tensor,
    layer_stack: LayerStack,
    context: Context,
    epsilon: float = 1e-6,
    name: str = "scale_norm",
) -> Tensor:
    """See `layers.normalization.scale_norm`, over d_model."""
    return scale_norm(x, context.d_model, context.variable_dtype, epsilon, name)


@configurable(module=_MODULE)
def sublayer_true_layer_norm(
    x: Tensor,
    layer_stack: LayerStack,
    context: Context,
    epsilon: float = 1e-6,
    name: str = "true_layer_norm",
    use_bias: bool = True,
) -> Tensor:
    """See `layers.normalization.layer_norm`, over d_model."""
    with mtf.variable_scope(name):
        return layer_norm(x, context.d_model, context.variable_dtype, epsilon, use_bias=use_bias)


@configurable(module=_MODULE)
def sublayer_except_first(
    x: Tensor,
    layer_stack: LayerStack,
    context: Context,
    sublayer: Callable[[Tensor, LayerStack, Context], Tensor] = sublayer_true_layer_norm,
) -> Tensor:
    """Applies a sublayer at every layer of the stack but the first.

    For stacks whose input is normed already, by one of `LayerStack.sublayers_initial`.
    """
    return x if context.layer.index == 0 else sublayer(x, layer_stack, context)


@configurable(module=_MODULE)
def sublayer_rezero(
    x: Tensor, layer_stack: LayerStack, context: Context, initial_value: float = 0.0
) -> Tensor:
    """Scales by one learned number, at first 0 (ReZero, Bachlechner et al. 2020)."""
    initial = constant(initial_value)
    return x * mtf.get_variable(x.mesh, "rezero_weight", Shape(), context.variable_dtype, initial)


@configurable(module=_MODULE)
def sublayer_clip_activation_gradient(
    x: Tensor, layer_stack: LayerStack, context: Context, rms_norm: float = 1.0
) -> Tensor:
    """See `layers.clipping.clip_activation_gradient`."""
    return clip_activation_gradient(x, rms_norm)


@configurable(module=_MODULE)
def sublayer_residual(x: Tensor, layer_stack: LayerStack, context: Context) -> Tensor:
    """Adds the layer's input."""
    return x + context.layer_input


@configurable(module=_MODULE)
def sublayer_dropout(
    x: Tensor, layer_stack: LayerStack, context: Context, dropout_rate: float = 0.0
) -> Tensor:
    """Drops units, the same at every position."""
    noise_shape = x.shape - context.length_dim
    return mtf.dropout(x, context.is_training, rate=dropout_rate, noise_shape=noise_shape)


@configurable(module=_MODULE)
def sublayer_annealed_dropout(
    x: Tensor,
    layer_stack: LayerStack,
    context: Context,
    init_dropout_rate: float = 0.0,
    start_step: int = REQUIRED,
    end_step: int = REQUIRED,
) -> Tensor:
    """`sublayer_dropout` at a rate that falls linearly to 0 from `start_step` to `end_step`."""
    if not context.is_training:
        return x
    if not 0.0 <= init_dropout_rate < 1.0 or end_step <= start_step:
        raise ConfigError(
            f"sublayer_annealed_dropout has init_dropout_rate = {init_dropout_rate}, start_step = "
            f"{start_step} and end_step = {end_step}; the rate must be from 0 and below 1, and the "
            "end after the start."
        )
    noise_shape = x.shape - context.length_dim
    return annealed_dropout(
        x, True, start_step, end_step, init_dropout_rate, context.step, noise_shape
    )


@configurable(module=_MODULE)
def sublayer_legacy_dropout(x: Tensor, layer_stack: LayerStack, context: Context) -> Tensor:
    """`sublayer_dropout` at the rate of the stack."""
    return sublayer_dropout(x, layer_stack, context, dropout_rate=layer_stack.dropout_rate)


LEGACY_INITIAL = [sublayer_legacy_dropout]
LEGACY_PER_LAYER = [
    sublayer_legacy_rms_norm,
    sublayer_call_layer,
    sublayer_legacy_dropout,
    sublayer_residual,
]
LEGACY_FINAL = [sublayer_legacy_final_rms_norm, sublayer_legacy_dropout]
