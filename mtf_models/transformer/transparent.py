"""Attention of each part of a decoder to its own mixture of the encoder's layers."""

from __future__ import annotations

import dataclasses
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import zeros
from mtf_models.transformer.attention import EncDecAttention
from mtf_models.transformer.attention_faults import require_encoder
from mtf_models.transformer.context import Context


@configurable(module="mesh_tensorflow.transformer.transformer_layers")
class TransparentEncDecAttention(EncDecAttention):
    """`EncDecAttention` to a mixture of what the encoder had after each module (Bai et al. 2018).

    A module is several layers one after another. The weights of the mixture are the softmax of a
    column of the variable `w` [encoder_num_modules + 1, decoder_num_modules], even at first; the
    first row is of the encoder's embedded input.

    Args:
        layers_per_encoder_module: layers of the encoder in a module.
        layers_per_decoder_module: layers of the decoder in a module; they share a column.
        encoder_num_modules: modules of the encoder.
        decoder_num_modules: modules of the decoder.
        dropout_rate: the part of `w` that is dropped.
        **kwargs: as for `EncDecAttention`; the dropout of attention is that which is bound for
            `SelfAttention`.

    Raises:
        ConfigError: if a number is not positive, or when called in other stacks than it says.
    """

    reads_encoder_layers = True

    def __init__(
        self,
        layers_per_encoder_module: int = REQUIRED,
        layers_per_decoder_module: int = REQUIRED,
        encoder_num_modules: int = REQUIRED,
        decoder_num_modules: int = REQUIRED,
        dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive(
            "TransparentEncDecAttention",
            layers_per_encoder_module=layers_per_encoder_module,
            layers_per_decoder_module=layers_per_decoder_module,
            encoder_num_modules=encoder_num_modules,
            decoder_num_modules=decoder_num_modules,
        )
        self.layers_per_encoder_module = layers_per_encoder_module
        self.layers_per_decoder_module = layers_per_decoder_module
        self.encoder_modules = Dimension("encoder_modules", encoder_num_modules + 1)
        self.decoder_modules = Dimension("decoder_modules", decoder_num_modules)
        self.mixture_dropout_rate = dropout_rate

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `EncDecAttention.call`."""
        require_encoder(self, context)
        mixture = context.encoder_memory("mixture", lambda _: self._mixture(context))
        return super().call(dataclasses.replace(context, encoder_output=mixture), x)

    def _mixture(self, context: Context) -> Tensor:
        """[batch, memory_length, d_model]."""
        outputs = context.encoder_layer_outputs[:: self.layers_per_encoder_module]
        module = context.layer_index // self.layers_per_decoder_module
        self._check(context)
        w = mtf.get_variable(
            context.mesh,
            "w",
            Shape([self.encoder_modules, self.decoder_modules]),
            context.variable_dtype,
            zeros(),
        )
        w = mtf.dropout(w, context.is_training, rate=self.mixture_dropout_rate)
        weights = mtf.softmax(mtf.to_float(w), self.encoder_modules)
        column = mtf.unstack(weights, self.decoder_modules)[module]
        shares = mtf.unstack(mtf.cast(column, w.dtype), self.encoder_modules)
        return mtf.add_n([share * output for share, output in zip(shares, outputs, strict=True)])

    def _check(self, context: Context) -> None:
        encoder_layers = len(context.encoder_layer_outputs) - 1
        expected = (self.encoder_modules.size - 1) * self.layers_per_encoder_module
        last = self.decoder_modules.size * self.layers_per_decoder_module
        faults = []
        if len({output.shape for output in context.encoder_layer_outputs}) > 1:
            faults.append("the encoder's layers differ in length and cannot be mixed")
        if encoder_layers != expected:
            faults.append(
                f"{self.encoder_modules.size - 1} modules of {self.layers_per_encoder_module} "
                f"layers are {expected} layers of an encoder, which has {encoder_layers}"
            )
        if context.layer_index >= last:
            faults.append(
                f"{self.decoder_modules.size} modules of {self.layers_per_decoder_module} layers "
                f"are {last} layers of a decoder, which has more"
            )
        if faults:
            raise ConfigError(
                f"TransparentEncDecAttention: {'; '.join(faults)}. Set its numbers of modules and "
                "layers to those of the stacks, and take EncDecAttention if the encoder pools."
            )
