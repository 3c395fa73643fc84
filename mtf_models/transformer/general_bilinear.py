"""Attention by a full bilinear form for each head."""

from __future__ import annotations

from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.layers.attention import attention
from mtf_models.layers.dense import dense
from mtf_models.layers.initialization import VarianceScalingInitializer
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.attention import enc_dec_attention_bias
from mtf_models.transformer.attention_faults import check_types, require_encoder
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.relative_attention import LEARNED, self_attention_bias
from mtf_models.transformer.talking_heads import HeadsDims, heads_of

_MODULE = "mesh_tensorflow.transformer.transformer_layers"


@configurable(module=_MODULE)
class GeneralBilinearSelfAttention(TransformerLayer):
    """Heads as wide as the model: logits x P_h m, outputs Σ_h w_h m Q_h (Shazeer et al. 2020, 7).

    Args:
        heads_dims: names and sizes of the heads.
        dropout_rate: the part of the attention weights that is dropped, the same for all queries.
        relative_attention_type: None, "bias" or "bias_shared".
        relative_attention_num_buckets: see `relative_position_bucket`.

    Raises:
        ConfigError: for an option that is unknown.
    """

    def __init__(
        self,
        heads_dims: HeadsDims = (("heads", 12),),
        dropout_rate: float = 0.0,
        relative_attention_type: str | None = None,
        relative_attention_num_buckets: int = 32,
    ) -> None:
        check_types(self, relative_attention_type, (None, *LEARNED))
        self.heads_dims = heads_of(self, "heads_dims", heads_dims)
        self.dropout_rate = dropout_rate
        self.relative_attention_type = relative_attention_type
        self.relative_attention_num_buckets = relative_attention_num_buckets

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        memory = context.self_attention_memory("memory", x)
        bias = self_attention_bias(self, context, self.heads_dims)
        return self._attend(context, x, memory, context.memory_length_dim, bias)

    def _attend(
        self,
        context: Context,
        x: Tensor,
        memory: Tensor,
        memory_length: Dimension,
        bias: Tensor | None,
    ) -> Tensor:
        width = Dimension("d_memory", context.d_model.size)
        memory = mtf.rename_dimension(memory, "d_model", width.name)
        q = dense(
            x,
            [*self.heads_dims, width],
            reduced_dims=[context.d_model],
            use_bias=False,
            variable_dtype=context.variable_dtype,
            kernel_initializer=VarianceScalingInitializer(1.0 / width.size)([context.d_model], []),
            name="q",
        )
        y = attention(
            q,
            memory,
            memory,
            memory_length,
            width,
            width,
            bias,
            is_training=context.is_training,
            dropout_rate=self.dropout_rate,
            dropout_broadcast_dims=[context.length_dim],
        )
        return dense(
            y,
            [context.d_model],
            reduced_dims=[*self.heads_dims, width],
            use_bias=False,
            variable_dtype=context.variable_dtype,
            name="y",
        )


@configurable(module=_MODULE)
class GeneralBilinearEncDecAttention(GeneralBilinearSelfAttention):
    """General bilinear attention of a decoder to the encoder's output.

    Args:
        relative_attention_type: as for `EncDecAttention`.
        **kwargs: as for `GeneralBilinearSelfAttention`, whose gin bindings apply here too.
    """

    def __init__(self, relative_attention_type: str | None = None, **kwargs: Any) -> None:
        super().__init__(relative_attention_type=relative_attention_type, **kwargs)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`; the context has an encoder output of width d_model."""
        require_encoder(self, context)
        bias = enc_dec_attention_bias(self, context, self.heads_dims)
        memory, x = context.encoder_output, context.split_hypotheses(x)
        return context.merge_hypotheses(
            self._attend(context, x, memory, context.encoder_length_dim, bias)
        )
