"""Self-attention and attention of a decoder to its encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import require_positive
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.alibi import alibi_bias
from mtf_models.transformer.attend import attend
from mtf_models.transformer.attention_faults import check_attention, check_types, require_encoder
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.positions import relative_position_bucket
from mtf_models.transformer.projections import AttentionProjections
from mtf_models.transformer.relative_attention import (
    LEARNED,
    contextual_bias,
    learned_bias,
    plus,
    self_attention_bias,
    shared_scope,
)
from mtf_models.transformer.rotary import rotated
from mtf_models.transformer.spans import relative_position_spans
from mtf_models.transformer.visibility import encoder_visibility_bias, visibility_bias

_MODULE = "mesh_tensorflow.transformer.transformer_layers"


@configurable(module=_MODULE)
class SelfAttention(TransformerLayer):
    """Multi-head attention of a sequence to itself (Vaswani et al. 2017, section 3.2.2).

    Args:
        num_heads: query heads.
        num_memory_heads: key and value heads, see `AttentionProjections`.
        key_value_size: the width of a head, d_kv.
        shared_kv: whether keys and values are one projection.
        dropout_rate: the part of the attention weights that is dropped, by default the same for all
            queries.
        attention_kwargs: more arguments of `layers.attention.attention`: "float32_logits",
            "extra_logit", "logits_soft_cap", and "dropout_broadcast_dims", a list of names of
            dimensions ("batch", "length", "memory_length", "heads", "query_heads"), which takes the
            place of "length".
        relative_attention_type: None, "bias" (a learned bias for each relative position, head and
            layer), "bias_shared" (one for all layers of a stack), "contextual" (see
            `contextual_bias`), "alibi" (see `alibi_bias`) or "rotary" (see `rotated`).
        relative_attention_num_buckets: see `relative_position_bucket`.
        attention_func: None, or "hybrid" for `hybrid_attention`, whose mixture is learned.
        combine_dims: whether heads and d_kv are one dimension in the variables.
        keep_query_heads_dims: whether the output keeps a part for each head, see `Branched...`.
        fold_scaling_into_initializer: whether the factor d_kv^-½ is in q's initial values.
        z_loss_coeff: weight of the squared log partition function of the attention weights, that
            is added to the loss in training; None for none.
        rotary_base: of the wavelengths of "rotary".
        use_bias: whether the projections have biases, zero at first.

    Raises:
        ConfigError: for an option that is unknown, or contradicts another.
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
        attention_func: str | None = None,
        combine_dims: bool = True,
        keep_query_heads_dims: bool = False,
        fold_scaling_into_initializer: bool = True,
        z_loss_coeff: float | None = None,
        rotary_base: float = 10000.0,
        use_bias: bool = False,
    ) -> None:
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
        self.attention_func = attention_func
        self.combine_dims = combine_dims
        self.keep_query_heads_dims = keep_query_heads_dims
        self.fold_scaling_into_initializer = fold_scaling_into_initializer
        self.z_loss_coeff = z_loss_coeff
        self.rotary_base = rotary_base
        self.use_bias = use_bias
        check_attention(self)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        maps = self.projections(context)
        q, key = maps.query(x), self._kept_key(context, maps.key(x))
        if self.relative_attention_type == "rotary":
            q = rotated(q, context.position, maps.key_dim, self.rotary_base)
            # Shared keys and values stay what they are: only the keys are turned.
            turned = rotated(key, context.position, maps.key_dim, self.rotary_base)
            k = context.self_attention_memory("k", turned)
            v = context.self_attention_memory("v", key if self.shared_kv else maps.value(x))
        else:
            k = context.self_attention_memory("k", key)
            v = k if self.shared_kv else context.self_attention_memory("v", maps.value(x))
        y = attend(
            self,
            context,
            maps,
            (q, k, v),
            context.memory_length_dim,
            lambda rows, q: self._bias(rows, maps, q),
        )
        return self._output(context, maps, y)

    def projections(self, context: Context) -> AttentionProjections:
        """The maps from d_model to heads and back."""
        return AttentionProjections(**self._projection_options(context))

    def _projection_options(self, context: Context) -> dict[str, Any]:
        return {
            "mesh": context.mesh,
            "d_model": context.d_model,
            "key_dim": Dimension("d_kv", self.key_value_size),
            "num_heads": self.num_heads,
            "num_memory_heads": self.num_memory_heads,
            "variable_dtype": context.variable_dtype,
            "shared_kv": self.shared_kv,
            "combine_dims": self.combine_dims,
            "fold_scaling": self.fold_scaling_into_initializer,
            "use_bias": self.use_bias,
        }

    def _kept_key(self, context: Context, key: Tensor) -> Tensor:
        """A key; in decoding as wide as logits are, so that no step has to widen all of them."""
        widens = self.attention_kwargs.get("float32_logits", True) and not self.shared_kv
        return mtf.to_float(key) if context.decoding and widens else key

    def _output(self, context: Context, maps: AttentionProjections, y: Tensor) -> Tensor:
        return maps.output(y, keep_heads=self.keep_query_heads_dims)

    def _bias(self, context: Context, maps: AttentionProjections, q: Tensor) -> Tensor | None:
        """What is added to the logits: masks and relative positions, or None.

        Args:
            context: of the queries.
            maps: of the layer.
            q: the queries.
        """
        kind, heads = self.relative_attention_type, maps.query_heads_dims
        if kind in (None, *LEARNED):
            return self_attention_bias(self, context, heads)
        mask = context.once("visibility", lambda: visibility_bias(context))
        if kind == "rotary":
            return mask
        if kind == "contextual":
            number = self.relative_attention_num_buckets
            return plus(contextual_bias(context, q, heads, maps.key_dim, number), mask)
        alibi = ("alibi", tuple(heads))
        return context.once(alibi, lambda: plus(alibi_bias(context, heads), mask))


@configurable(module=_MODULE)
class EncDecAttention(SelfAttention):
    """Attention of a decoder to the encoder's output (Vaswani et al. 2017, section 3.2.3).

    Args:
        relative_attention_type: None, or "bias" or "bias_shared" for a learned bias by the
            distance that `relative_position_fn` of `enc_dec_attention_bias` says.
        **kwargs: as for `SelfAttention`, whose gin bindings apply here too.

    Raises:
        ConfigError: for another relative_attention_type.
    """

    def __init__(self, relative_attention_type: str | None = None, **kwargs: Any) -> None:
        super().__init__(relative_attention_type=None, **kwargs)
        check_types(self, relative_attention_type, (None, *LEARNED))
        self.relative_attention_type = relative_attention_type

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`; the context has an encoder output of width d_model."""
        require_encoder(self, context)
        maps = self.projections(context)
        q = context.split_hypotheses(maps.query(x))
        k = context.encoder_memory("k", lambda x: self._kept_key(context, maps.key(x)))
        v = k if self.shared_kv else context.encoder_memory("v", maps.value)
        y = attend(
            self,
            context,
            maps,
            (q, k, v),
            context.encoder_length_dim,
            lambda rows, _: enc_dec_attention_bias(self, rows, maps.query_heads_dims),
        )
        return self._output(context, maps, context.merge_hypotheses(y))


@configurable(module=_MODULE)
def enc_dec_attention_bias(
    layer: SelfAttention,
    context: Context,
    heads_dims: Sequence[Dimension],
    relative_position_fn: Callable[[Context], Tensor] = relative_position_spans,
) -> Tensor | None:
    """Masks of attention to the encoder, with a learned bias if the layer asks for one.

    Args:
        layer: says with its relative_attention_type and relative_attention_num_buckets.
        context: of the queries.
        heads_dims: the query heads.
        relative_position_fn: gives memory position minus query position,
            [..., length, memory_length] int32, with the dimensions of `Context.split_hypotheses`.
    """
    mask = context.once("encoder visibility", lambda: encoder_visibility_bias(context))
    kind, number = layer.relative_attention_type, layer.relative_attention_num_buckets
    if kind is None:
        return mask
    name = shared_scope(context, kind, "enc_dec_relative_attention_bias", heads_dims)

    def bucket() -> Tensor:
        return relative_position_bucket(relative_position_fn(context), True, number)

    return context.once(
        name, lambda: plus(learned_bias(context, name, heads_dims, number, bucket), mask)
    )
