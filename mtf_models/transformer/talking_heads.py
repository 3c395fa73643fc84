"""Attention whose heads talk to each other, before and after the softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.attention import attention_logits, dropped
from mtf_models.layers.dense import dense
from mtf_models.layers.initialization import VarianceScalingInitializer
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.transformer.attention import enc_dec_attention_bias
from mtf_models.transformer.attention_faults import check_types, require_encoder
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.relative_attention import LEARNED, self_attention_bias

_MODULE = "mesh_tensorflow.transformer.transformer_layers"
HeadsDims = Sequence[tuple[str, int]]
DYNAMIC = ("x2l", "m2l", "x2w", "m2w")


@configurable(module=_MODULE)
class TalkingHeadsSelfAttention(TransformerLayer):
    """Self-attention with maps between heads around the softmax (Shazeer et al. 2020).

    Args:
        key_heads_dims: names and sizes of the heads of queries and keys.
        softmax_heads_dims: of the attention weights.
        value_heads_dims: of the values. Where two neighbours have a dimension in common there is a
            map for each of its entries, and where they have all in common there is none.
        key_size: the width of queries and keys.
        value_size: the width of values.
        dropout_rate: the part of the attention weights that is dropped, the same for all queries.
        relative_attention_type: None, "bias" or "bias_shared".
        relative_attention_num_buckets: see `relative_position_bucket`.
        dynamic_projections: which maps have parts that are computed (section 6 of the paper): from
            the query ("x") or the memory ("m"), for logits ("l") or weights ("w"): a list of
            "x2l", "m2l", "x2w", "m2w".
        dynamic_projections_init_scale: of the variance of what computes them.

    Raises:
        ConfigError: for an option that is unknown.
    """

    def __init__(
        self,
        key_heads_dims: HeadsDims = (("heads", 12),),
        softmax_heads_dims: HeadsDims = (("heads", 12),),
        value_heads_dims: HeadsDims = (("heads", 12),),
        key_size: int = 64,
        value_size: int = 64,
        dropout_rate: float = 0.0,
        relative_attention_type: str | None = None,
        relative_attention_num_buckets: int = 32,
        dynamic_projections: Sequence[str] | None = None,
        dynamic_projections_init_scale: float = 1e-2,
    ) -> None:
        name = type(self).__name__
        require_positive(name, key_size=key_size, value_size=value_size)
        check_types(self, relative_attention_type, (None, *LEARNED))
        self.key_heads_dims = heads_of(self, "key_heads_dims", key_heads_dims)
        self.softmax_heads_dims = heads_of(self, "softmax_heads_dims", softmax_heads_dims)
        self.value_heads_dims = heads_of(self, "value_heads_dims", value_heads_dims)
        self.key_dim = Dimension("d_k", key_size)
        self.value_dim = Dimension("d_v", value_size)
        self.dropout_rate = dropout_rate
        self.relative_attention_type = relative_attention_type
        self.relative_attention_num_buckets = relative_attention_num_buckets
        self.dynamic_projections = list(dynamic_projections or ())
        self.dynamic_projections_init_scale = dynamic_projections_init_scale
        unknown = [x for x in self.dynamic_projections if x not in DYNAMIC]
        if unknown:
            raise ConfigError(
                f"{name}.dynamic_projections has {unknown}; they can be {', '.join(DYNAMIC)}."
            )

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        k = context.self_attention_memory("k", self._keys(context, x))
        v = context.self_attention_memory("v", self._values(context, x))
        memory = None
        if {"m2l", "m2w"} & set(self.dynamic_projections):
            memory = context.self_attention_memory("memory", x)
        bias = self_attention_bias(self, context, self.softmax_heads_dims)
        return self._attend(context, x, (k, v, memory), context.memory_length_dim, bias)

    def _keys(self, context: Context, memory: Tensor) -> Tensor:
        return self._dense(context, memory, [*self.key_heads_dims, self.key_dim], "k")

    def _values(self, context: Context, memory: Tensor) -> Tensor:
        return self._dense(context, memory, [*self.value_heads_dims, self.value_dim], "v")

    def _attend(
        self,
        context: Context,
        x: Tensor,
        kvm: tuple[Tensor, Tensor, Tensor | None],
        memory_length: Dimension,
        bias: Tensor | None,
    ) -> Tensor:
        k, v, memory = kvm
        # The scale of the logits, d_k^-½, is in the initial values of q.
        scaled = VarianceScalingInitializer(scale=1.0 / self.key_dim.size)
        q = self._dense(context, x, [*self.key_heads_dims, self.key_dim], "q", scaled)
        logits = attention_logits(q, k, self.key_dim, bias=None)
        logits = self._talk(
            context, logits, "logits", (self.key_heads_dims, self.softmax_heads_dims), x, memory
        )
        if bias is not None:
            logits = mtf.add(logits, bias, output_shape=logits.shape)
        weights = mtf.softmax(logits, memory_length)
        weights = dropped(weights, context.is_training, self.dropout_rate, [context.length_dim])
        weights = self._talk(
            context, weights, "weights", (self.softmax_heads_dims, self.value_heads_dims), x, memory
        )
        batch = x.shape - context.d_model
        y = mtf.einsum(
            [mtf.cast(weights, v.dtype), v], batch + [*self.value_heads_dims, self.value_dim]
        )
        reduced = [*self.value_heads_dims, self.value_dim]
        return self._dense(context, y, [context.d_model], "y", reduced_dims=reduced)

    def _talk(
        self,
        context: Context,
        x: Tensor,
        name: str,
        heads: tuple[list[Dimension], list[Dimension]],
        query: Tensor,
        memory: Tensor | None,
    ) -> Tensor:
        """Maps heads to other heads, by a kernel and by what is computed from the inputs."""
        before, after = heads
        both = [d for d in before if d in after]
        old = [d for d in before if d not in after]
        new = [d for d in after if d not in before]
        sources = {f"x2{name[0]}": query, f"m2{name[0]}": memory}
        used = [sources[p] for p in self.dynamic_projections if p in sources]
        if not old and not new:
            return x
        y = dense(
            x,
            new,
            reduced_dims=old,
            expert_dims=both,
            use_bias=False,
            # Logits and weights are float32, whatever activations are.
            variable_dtype=context.variable_dtype._replace(activation=x.dtype),
            name=name,
        )
        for number, source in enumerate(used):
            # [..., shared heads, old heads, new heads]
            with mtf.variable_scope(name):
                kernel = dense(
                    source,
                    [*both, *old, *new],
                    reduced_dims=[context.d_model],
                    use_bias=False,
                    variable_dtype=context.variable_dtype,
                    kernel_initializer=VarianceScalingInitializer(
                        self.dynamic_projections_init_scale
                    )([context.d_model], []),
                    name=f"{name}_dynamic_{number}",
                )
            y += mtf.einsum([x, mtf.cast(kernel, x.dtype)], y.shape)
        return y

    def _dense(
        self,
        context: Context,
        x: Tensor,
        new: list[Dimension],
        name: str,
        initializer: VarianceScalingInitializer | None = None,
        reduced_dims: list[Dimension] | None = None,
    ) -> Tensor:
        reduced = reduced_dims or [context.d_model]
        return dense(
            x,
            new,
            reduced_dims=reduced,
            use_bias=False,
            variable_dtype=context.variable_dtype,
            kernel_initializer=initializer(reduced, new) if initializer else None,
            name=name,
        )


@configurable(module=_MODULE)
class TalkingHeadsEncDecAttention(TalkingHeadsSelfAttention):
    """Talking-heads attention of a decoder to the encoder's output.

    Args:
        relative_attention_type: as for `EncDecAttention`.
        **kwargs: as for `TalkingHeadsSelfAttention`, whose gin bindings apply here too.
    """

    def __init__(self, relative_attention_type: str | None = None, **kwargs: Any) -> None:
        super().__init__(relative_attention_type=relative_attention_type, **kwargs)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`; the context has an encoder output of width d_model."""
        require_encoder(self, context)
        k = context.encoder_memory("k", lambda memory: self._keys(context, memory))
        v = context.encoder_memory("v", lambda memory: self._values(context, memory))
        bias = enc_dec_attention_bias(self, context, self.softmax_heads_dims)
        kvm = k, v, context.encoder_output
        x = context.split_hypotheses(x)
        return context.merge_hypotheses(
            self._attend(context, x, kvm, context.encoder_length_dim, bias)
        )


def heads_of(layer: Any, option: str, pairs: HeadsDims) -> list[Dimension]:
    """Dimensions of pairs of names and sizes.

    Raises:
        ConfigError: if they are no such pairs.
    """
    try:
        return list(Shape([Dimension(str(name), int(size)) for name, size in pairs]))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{type(layer).__name__}.{option} is {pairs!r}; write pairs of a name and a size, such "
            f'as [("heads", 12)].'
        ) from error
