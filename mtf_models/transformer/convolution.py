"""Convolutions over positions as layers of a stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.activation import Activation, activation_function
from mtf_models.layers.convolution import conv1d, separable_conv1d
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer

_PADDINGS = ("causal", "same")
_MODULE = "mesh_tensorflow.transformer.transformer_layers"


@configurable(module=_MODULE)
class Conv1DLayer(TransformerLayer):
    """A convolution over positions, that in an autoregressive stack ends at each position.

    Args:
        filter_size: how many positions a result sees; around it, or up to it if autoregressive.
        output_size: the width of the result, d_model.
        activation: the name of an operation, or a function.
        padding: in an autoregressive stack "causal", or "same" for what the original computes of
            whole sequences there: each position sees the next one too, which it is to predict.

    Raises:
        ConfigError: if the output is not as wide as the stack, or for another padding.
    """

    def __init__(
        self,
        filter_size: int,
        output_size: int,
        activation: Activation = "linear",
        padding: str = "causal",
    ) -> None:
        require_positive(type(self).__name__, filter_size=filter_size, output_size=output_size)
        if padding not in _PADDINGS:
            known = " or ".join(map(repr, _PADDINGS))
            raise ConfigError(f"{type(self).__name__}.padding is {padding!r}; it is {known}.")
        self.filter_size = filter_size
        self.output_size = output_size
        self.activation = activation_function(activation)
        self.padding = padding

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        check_width(self, context)
        causal = context.autoregressive and self.padding == "causal"
        if context.autoregressive and not causal and (context.incremental or context.prefilling):
            raise ConfigError(
                f'{type(self).__name__}.padding is "same", and its positions see the next one, '
                'which is not there when decoding: bind "causal".'
            )
        before = self.filter_size - 1

        def convolve(x: Tensor, length: str) -> Tensor:
            padding = "SAME"
            if causal and before:
                x, padding = mtf.pad(x, [before, 0], length), "VALID"
            return conv1d(
                x,
                output_dim(context),
                self.filter_size,
                padding=padding,
                variable_dtype=context.variable_dtype,
            )

        return self.activation(as_d_model(over_positions(context, x, before, convolve)))


@configurable(module=_MODULE)
class SeparableConv1DLayer(TransformerLayer):
    """A convolution of each channel, then a dense map; see `layers.convolution.separable_conv1d`.

    Args:
        min_relative_pos: the first position that a result sees, relative to its own.
        max_relative_pos: the last; not above 0 in an autoregressive stack.
        output_size: the width of the result, d_model.
        depthwise_filter_initializer_scale: as for `separable_conv1d`.
        pointwise_filter_initializer_scale: as for `separable_conv1d`.
        activation: the name of an operation, or a function.

    Raises:
        ConfigError: if there are no positions, later ones in an autoregressive stack, or the output
            is not as wide as the stack.
    """

    def __init__(
        self,
        min_relative_pos: int,
        max_relative_pos: int,
        output_size: int,
        depthwise_filter_initializer_scale: float = 1.0,
        pointwise_filter_initializer_scale: float = 1.0,
        activation: Activation = "linear",
    ) -> None:
        require_positive(type(self).__name__, output_size=output_size)
        if min_relative_pos > max_relative_pos:
            raise ConfigError(
                f"{type(self).__name__} sees positions from {min_relative_pos} to "
                f"{max_relative_pos}, which are none: let min_relative_pos be the smaller one."
            )
        self.min_relative_pos = min_relative_pos
        self.max_relative_pos = max_relative_pos
        self.output_size = output_size
        self.depthwise_scale = depthwise_filter_initializer_scale
        self.pointwise_scale = pointwise_filter_initializer_scale
        self.activation = activation_function(activation)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        check_width(self, context)
        check_causal(self, context)
        y = over_positions(
            context,
            x,
            -self.min_relative_pos,
            lambda x, _: separable_conv1d(
                x,
                output_dim(context),
                self.min_relative_pos,
                self.max_relative_pos,
                self.depthwise_scale,
                self.pointwise_scale,
                variable_dtype=context.variable_dtype,
            ),
        )
        return self.activation(as_d_model(y))


def over_positions(
    context: Context, x: Tensor, before: int, function: Callable[[Tensor, str], Tensor]
) -> Tensor:
    """A function of neighbouring positions; when decoding, of the last ones, for the present one.

    Args:
        context: of the call.
        x: [batch, length, ...]; where id 0 is read, the function finds zeros.
        before: how many earlier positions it sees.
        function: takes [batch, positions, ...] and the name of that dimension; keeps it.

    Returns:
        [batch, length, ...].
    """
    if context.inputs is not None:
        # As the original: in language models it is all that tells padding, and the first id is 0.
        read = mtf.cast(mtf.not_equal(context.inputs, 0), x.dtype)
        x = mtf.multiply(x, read, output_shape=x.shape)
    if not context.incremental:
        context.remember("input", x, before + 1)
        return function(x, context.length_dim.name)
    y = function(context.recent("input", x, before + 1), "window")
    y = mtf.slice(y, before, 1, "window")
    return mtf.rename_dimension(y, "window", context.length_dim.name)


def output_dim(context: Context) -> Dimension:
    """As wide as d_model, under another name: a kernel has both."""
    return Dimension("d_output", context.d_model.size)


def as_d_model(x: Tensor) -> Tensor:
    """[..., d_output] to [..., d_model]."""
    return mtf.rename_dimension(x, "d_output", "d_model")


def check_width(layer: Any, context: Context) -> None:
    """Refuses an output that does not fit into the residual stream.

    Raises:
        ConfigError: if `output_size` is not d_model.
    """
    if layer.output_size != context.d_model.size:
        raise ConfigError(
            f"{type(layer).__name__}.output_size is {layer.output_size} in a stack of d_model "
            f"{context.d_model.size}: give both one value."
        )


def check_causal(layer: Any, context: Context) -> None:
    """Refuses a convolution by which a position would see later ones that it may not see.

    Raises:
        ConfigError: if `max_relative_pos` is above 0 in an autoregressive stack.
    """
    if context.autoregressive and layer.max_relative_pos > 0:
        raise ConfigError(
            f"{type(layer).__name__}.max_relative_pos is {layer.max_relative_pos} in a stack that "
            "is autoregressive, where a position may see itself and earlier ones: set it to 0 or "
            "below there (decoder/...), or use the layer in an encoder."
        )
