"""Self-attention and attention of a decoder to its encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.attention import MASKED, attention
from mtf_models.mesh import Dimension, Shape, Tensor, scopes
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.positions import relative_position_bucket
from mtf_models.transformer.projections import AttentionProjections


@configurable(module="mesh_tensorflow.transformer.transformer_layers")
class SelfAttention(TransformerLayer):
    """Multi-head attention of a sequence to itself (Vaswani et al. 2017, section 3.2.2).

    Args:
        num_heads: query heads.
        num_memory_heads: key and value heads, see `AttentionProjections`.
        key_value_size: the width of a head, d_kv.
        shared_kv: whether keys and values are one projection.
        dropout_rate: the part of the attention weights that is dropped, the same for all queries.
        attention_kwargs: more arguments of `layers.attention.attention`: "float32_logits",
            "extra_logit".
        relative_attention_type: None, "bias" (a learned bias for each relative position, head and
            layer) or "bias_shared" (one for all layers of a stack).
        relative_attention_num_buckets: see `relative_position_bucket`.
        combine_dims: whether heads and d_kv are one dimension in the variables.
        fold_scaling_into_initializer: whether the factor d_kv^-½ is in q's initial values.

    Raises:
        ConfigError: for another relative_attention_type.
    """

    def __init__(
        self,
        num_heads: int = 8,
        num_memory_heads: int = 0,
        key_value_size: int = 128,
        shared_kv: bool = False,
        dropout_rate: float = 0.0,
        attention_kwargs: Mapping[str, Any] | None = None,
        relative_attention_type: str | None = None,
        relative_attention_num_buckets: int = 32,
        combine_dims: bool = True,
        fold_scaling_into_initializer: bool = True,
    ) -> None:
        if relative_attention_type not in (None, "bias", "bias_shared"):
            raise ConfigError(
                f"{type(self).__name__}.relative_attention_type is {relative_attention_type!r}; "
                'it can be None, "bias" or "bias_shared".'
            )
        require_positive(
            type(self).__name__,
            num_heads=num_heads,
            key_value_size=key_value_size,
            relative_attention_num_buckets=relative_attention_num_buckets,
        )
        self.num_heads = num_heads
        self.num_memory_heads = num_memory_heads
        self.key_value_size = key_value_size
        self.shared_kv = shared_kv
        self.dropout_rate = dropout_rate
        self.attention_kwargs = dict(attention_kwargs or {})
        self.relative_attention_type = relative_attention_type
        self.relative_attention_num_buckets = relative_attention_num_buckets
        self.combine_dims = combine_dims
        self.fold_scaling_into_initializer = fold_scaling_into_initializer

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        maps = self._projections(context)
        q = maps.query(x)
        k = context.self_attention_memory("k", maps.key(x))
        v = k if self.shared_kv else context.self_attention_memory("v", maps.value(x))
        bias = self._bias(context, maps)
        return maps.output(self._attend(context, maps, q, k, v, context.memory_length_dim, bias))

    def _projections(self, context: Context) -> AttentionProjections:
        return AttentionProjections(
            mesh=context.mesh,
            d_model=context.d_model,
            key_dim=Dimension("d_kv", self.key_value_size),
            num_heads=self.num_heads,
            num_memory_heads=self.num_memory_heads,
            variable_dtype=context.variable_dtype,
            shared_kv=self.shared_kv,
            combine_dims=self.combine_dims,
            fold_scaling=self.fold_scaling_into_initializer,
        )

    def _attend(
        self,
        context: Context,
        maps: AttentionProjections,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        memory_length: Dimension,
        bias: Tensor | None,
    ) -> Tensor:
        return attention(
            q,
            k,
            v,
            memory_length,
            maps.key_dim,
            maps.key_dim,
            bias,
            is_training=context.is_training,
            dropout_rate=self.dropout_rate,
            dropout_broadcast_dims=[context.length_dim],
            **self.attention_kwargs,
        )

    def _bias(self, context: Context, maps: AttentionProjections) -> Tensor | None:
        """What is added to the logits: masks and relative positions, or None."""
        if self.relative_attention_type is None:
            return context.once("visibility", lambda: visibility_bias(context))
        scope = scopes.full_name("relative_attention_bias")
        heads = tuple(maps.query_heads_dims)
        if self.relative_attention_type == "bias_shared":
            scope = context.shared_scopes.setdefault(("relative_attention_bias", heads), scope)

        def compute() -> Tensor:
            bias = self._relative_bias(context, scope, heads)
            mask = context.once("visibility", lambda: visibility_bias(context))
            return bias if mask is None else bias + mask

        return context.once(scope, compute)

    def _relative_bias(self, context: Context, name: str, heads: tuple[Dimension, ...]) -> Tensor:
        """[heads, length, memory_length] in float32."""
        buckets = Dimension("buckets", self.relative_attention_num_buckets)
        with scopes.entered(""):
            table = mtf.get_variable(
                context.mesh, name, Shape([*heads, buckets]), context.variable_dtype
            )
        distance = mtf.sub(
            context.memory_position,
            context.position,
            output_shape=Shape([context.length_dim, context.memory_length_dim]),
        )
        bucket = relative_position_bucket(
            distance, not context.fully_autoregressive, self.relative_attention_num_buckets
        )
        return mtf.to_float(mtf.gather(table, bucket, buckets))


@configurable(module="mesh_tensorflow.transformer.transformer_layers")
class EncDecAttention(SelfAttention):
    """Attention of a decoder to the encoder's output (Vaswani et al. 2017, section 3.2.3).

    Args:
        relative_attention_type: None; there is no relative position between the two sequences.
        **kwargs: as for `SelfAttention`, whose gin bindings apply here too.

    Raises:
        ConfigError: if a relative_attention_type is set.
    """

    def __init__(self, relative_attention_type: str | None = None, **kwargs: Any) -> None:
        if relative_attention_type is not None:
            raise ConfigError(
                f"EncDecAttention.relative_attention_type is {relative_attention_type!r}; it must "
                "be None."
            )
        super().__init__(relative_attention_type=None, **kwargs)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`; the context has an encoder output of width d_model."""
        maps = self._projections(context)
        q = maps.query(x)
        k = context.encoder_memory("k", maps.key)
        v = k if self.shared_kv else context.encoder_memory("v", maps.value)
        bias = context.once("encoder visibility", lambda: encoder_visibility_bias(context))
        length = context.encoder_output.shape.get_dim_by_name("memory_length")
        return maps.output(self._attend(context, maps, q, k, v, length, bias))


def visibility_bias(context: Context) -> Tensor | None:
    """Masks of self-attention, float32: the future, and other sequences of a packed row."""
    bias = None
    if context.autoregressive:
        write, read = context.write_priority, context.read_priority
        shape = read.shape + context.memory_length_dim
        bias = mtf.to_float(mtf.greater(write, read, output_shape=shape)) * MASKED
    if context.sequence_id is not None and not context.incremental:
        names = context.length_dim.name, context.memory_length_dim.name
        memory_id = mtf.rename_dimension(context.sequence_id, *names)
        other = _differs(context.sequence_id, memory_id)
        bias = other if bias is None else other + bias
    return bias


def encoder_visibility_bias(context: Context) -> Tensor | None:
    """The mask of attention to the encoder, float32: sequences see their own inputs only."""
    if context.encoder_sequence_id is None:
        return None
    if context.incremental:  # one sequence a row, whose encoder side is 1 and padding 0
        return mtf.to_float(mtf.not_equal(context.encoder_sequence_id, 1)) * MASKED
    if context.sequence_id is None:
        return None
    return _differs(context.sequence_id, context.encoder_sequence_id)


def _differs(sequence_id: Tensor, memory_id: Tensor) -> Tensor:
    shape = sequence_id.shape + [d for d in memory_id.shape if d not in sequence_id.shape]
    return mtf.to_float(mtf.not_equal(sequence_id, memory_id, output_shape=shape)) * MASKED
