"""Layers of the evolved transformer."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.convolution import conv1d, separable_conv1d
from mtf_models.layers.dense import dense, dense_product
from mtf_models.layers.normalization import layer_norm
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.attention import EncDecAttention, SelfAttention
from mtf_models.transformer.context import Context
from mtf_models.transformer.convolution import (
    as_d_model,
    output_dim,
    over_positions,
)
from mtf_models.transformer.layer import TransformerLayer

_MODULE = "mesh_tensorflow.transformer.evolved_transformer"


@configurable(module=_MODULE)
class GatedLinearUnitLayer(TransformerLayer):
    """(x W + b) σ(x V + c) (Dauphin et al. 2017; So et al. 2019, figure 3)."""

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        y = dense_product(
            x,
            [output_dim(context)],
            ["linear", "sigmoid"],
            use_bias=True,
            variable_dtype=context.variable_dtype,
            name="glu",
        )
        return as_d_model(y)


class _Convolutions(TransformerLayer):
    """Two branches of different widths, added, normalised and convolved once more.

    Args:
        d_model: the width of the stack.
        dropout_rate: of each part, the same at every position.
        initializer_scale: of the variance of the kernels.
        norm_epsilon: of the norm between.
    """

    def __init__(
        self,
        d_model: int,
        dropout_rate: float,
        initializer_scale: float = 1.0,
        norm_epsilon: float = 1e-6,
    ) -> None:
        require_positive(type(self).__name__, d_model=d_model)
        self.d_model = d_model
        self.dropout_rate = dropout_rate
        self.initializer_scale = initializer_scale
        self.norm_epsilon = norm_epsilon

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        if self.d_model != context.d_model.size:
            raise ConfigError(
                f"{type(self).__name__}.d_model is {self.d_model} in a stack of d_model "
                f"{context.d_model.size}: give both one value."
            )
        return self._branches(context, x)

    def _dropped(self, context: Context, x: Tensor) -> Tensor:
        noise_shape = x.shape - context.length_dim
        return mtf.dropout(x, context.is_training, rate=self.dropout_rate, noise_shape=noise_shape)

    def _normalised(self, context: Context, wide: Tensor, narrow: Tensor) -> Tensor:
        """The norm of the sum of two branches, the narrower one filled with zeros."""
        width = wide.shape.dims[-1]
        return layer_norm(
            wide + _widened(narrow, width), width, context.variable_dtype, self.norm_epsilon
        )

    def _separable(
        self, context: Context, x: Tensor, output: Dimension, positions: tuple[int, int], name: str
    ) -> Tensor:
        first, last = positions

        def convolve(x: Tensor, _: str) -> Tensor:
            return separable_conv1d(
                x,
                output,
                first,
                last,
                self.initializer_scale,
                self.initializer_scale,
                variable_dtype=context.variable_dtype,
            )

        with mtf.variable_scope(name):
            return over_positions(context, x, -first, convolve)


@configurable(module=_MODULE)
class EncoderConvolutionalLayer(_Convolutions):
    """Convolutions of an encoder's block (So et al. 2019, figure 3).

    Args:
        d_model: the width of the stack.
        dropout_rate: of each part, the same at every position.
        initializer_scale: of the kernels' initial values.
        norm_epsilon: of the norm between.

    Raises:
        ConfigError: in an autoregressive stack.
    """

    def _branches(self, context: Context, x: Tensor) -> Tensor:
        if context.autoregressive:
            raise ConfigError(
                "EncoderConvolutionalLayer sees later positions, and this stack is autoregressive: "
                "take DecoderConvolutionalLayer there."
            )
        dtype = context.variable_dtype
        wide = Dimension("d_ff", 4 * self.d_model)
        narrow = Dimension("d_narrow", self.d_model // 2)
        with mtf.variable_scope("conv1x1"):
            left = dense(x, [wide], use_bias=False, activation="relu", variable_dtype=dtype)
        left = self._dropped(context, left)
        with mtf.variable_scope("conv3x1"):
            right = mtf.relu(conv1d(x, narrow, 3, variable_dtype=dtype))
        right = self._dropped(context, right)
        y = self._normalised(context, left, right)
        y = context.masked(y)  # which real neighbours would see
        y = self._separable(context, y, narrow, (-4, 4), "sep_conv9x1")
        return self._dropped(context, _widened(y, context.d_model))


@configurable(module=_MODULE)
class DecoderConvolutionalLayer(_Convolutions):
    """Convolutions of a decoder's block (So et al. 2019, figure 3), up to each position.

    Args:
        d_model: the width of the stack.
        dropout_rate: of each part, the same at every position.
        initializer_scale: of the kernels' initial values.
        norm_epsilon: of the norm between.
    """

    def _branches(self, context: Context, x: Tensor) -> Tensor:
        wide = Dimension("d_ff", 2 * self.d_model)
        narrow = Dimension("d_narrow", self.d_model // 2)
        left = mtf.relu(self._separable(context, x, wide, (-10, 0), "sep_conv11x1"))
        left = self._dropped(context, left)
        right = self._separable(context, x, narrow, (-6, 0), "sep_conv7x1_1")
        right = self._dropped(context, right)
        y = self._normalised(context, left, right)
        y = self._separable(context, y, context.d_model, (-6, 0), "sep_conv7x1_2")
        return self._dropped(context, y)


@configurable(module=_MODULE)
class DecoderAttentionLayer(TransformerLayer):
    """Self-attention and attention to the encoder, added (So et al. 2019, figure 3).

    Args:
        base_num_heads: heads of the attention to the encoder; the other has twice as many.
    """

    def __init__(self, base_num_heads: int) -> None:
        require_positive(type(self).__name__, base_num_heads=base_num_heads)
        self.self_attention = SelfAttention(num_heads=2 * base_num_heads)
        self.encoder_attention = EncDecAttention(num_heads=base_num_heads)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        with mtf.variable_scope("self_attention"):
            y = self.self_attention.call(context, x)
        with mtf.variable_scope("enc_dec_attention"):
            return y + self.encoder_attention.call(context, x)


def _widened(x: Tensor, width: Dimension) -> Tensor:
    """`x` with zeros added at the end of its last dimension."""
    last = x.shape.dims[-1]
    x = mtf.pad(x, [0, width.size - last.size], last.name)
    return mtf.rename_dimension(x, last.name, width.name)
