"""Attention weights that are learned or computed, not compared."""

from __future__ import annotations

from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.attention import attention_logits, dropped
from mtf_models.layers.dense import dense
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import constant
from mtf_models.transformer.attend import attention_options
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.attention_faults import check_compares, check_types, check_without
from mtf_models.transformer.context import Context
from mtf_models.transformer.projections import AttentionProjections
from mtf_models.transformer.relative_attention import LEARNED, plus, self_attention_bias

MODES = (
    "random",
    "factorized",
    "dense_minus",
    "random_plus",
    "random_plus_alpha",
    "dense_plus",
    "dense_plus_alpha",
)
_RANK = Dimension("synthetic_rank", 8)


@configurable(module="mesh_tensorflow.transformer.transformer_layers")
class Synthesizer(SelfAttention):
    """Self-attention with synthetic logits (Tay et al. 2021, section 3).

    Args:
        synthesize_mode: "random" (a learned matrix of logits for each head), "factorized" (of rank
            8), "dense_minus" (computed from each query alone); "random_plus" and "dense_plus" add
            the usual products of queries and keys, "random_plus_alpha" and "dense_plus_alpha" mix
            them in by a learned part.
        table_length: how many positions there can be.
        **kwargs: as for `SelfAttention`, whose gin bindings apply here too; relative_attention_type
            can be None, "bias" or "bias_shared".

    Raises:
        ConfigError: for another mode, or key heads in groups.
    """

    def __init__(
        self,
        synthesize_mode: str = "random_plus_alpha",
        table_length: int = 512,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        name = type(self).__name__
        require_positive(name, table_length=table_length)
        check_types(self, self.relative_attention_type, (None, *LEARNED))
        if synthesize_mode not in MODES:
            known = ", ".join(map(repr, MODES))
            raise ConfigError(f"{name}.synthesize_mode is {synthesize_mode!r}; it can be {known}.")
        check_without(self, "attention_func", "z_loss_coeff", "use_bias")
        check_compares(self)
        self.synthesize_mode = synthesize_mode
        self.table_length = table_length

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        self._check_length(context)
        maps = self.projections(context)
        v = context.self_attention_memory("v", maps.value(x))
        logits = self._synthetic(context, maps, x)
        if "plus" in self.synthesize_mode:
            k = v if self.shared_kv else context.self_attention_memory("k", maps.key(x))
            products = attention_logits(maps.query(x), k, maps.key_dim, bias=None)
            logits = self._mixed(context, products, logits)
        bias = self_attention_bias(self, context, maps.query_heads_dims)
        if bias is not None:
            logits = plus(logits, bias)
        options = attention_options(self, context)
        extra = options.get("extra_logit")
        weights = mtf.cast(mtf.softmax(logits, context.memory_length_dim, extra), v.dtype)
        alike = options["dropout_broadcast_dims"]
        weights = dropped(weights, context.is_training, self.dropout_rate, alike)
        shape = x.shape - context.d_model + [*maps.query_heads_dims, maps.key_dim]
        return self._output(context, maps, mtf.einsum([weights, v], shape))

    def _synthetic(self, context: Context, maps: AttentionProjections, x: Tensor) -> Tensor:
        """[heads, length, memory_length], with batch if computed from the input; float32."""
        memory = Dimension("synthetic_memory", self.table_length)
        heads = list(maps.query_heads_dims)
        if "dense" in self.synthesize_mode:
            made = dense(
                self._dense_query(context, maps, x),
                [memory],
                reduced_dims=[maps.key_dim],
                expert_dims=heads,
                use_bias=False,
                variable_dtype=context.variable_dtype,
                name="synthetic_dense",
            )
        else:
            made = self._table(context, heads, memory)
        order = made.shape - context.length_dim - memory + [context.length_dim, memory]
        made = mtf.to_float(mtf.transpose(made, order))
        made = mtf.slice(made, 0, context.memory_length_dim.size, memory.name)
        return mtf.rename_dimension(made, memory.name, context.memory_length_dim.name)

    def _dense_query(self, context: Context, maps: AttentionProjections, x: Tensor) -> Tensor:
        new = [*maps.query_heads_dims, maps.key_dim]
        return dense(
            x,
            new,
            reduced_dims=[context.d_model],
            activation="relu",
            use_bias=False,
            variable_dtype=context.variable_dtype,
            name="synthetic_hidden",
        )

    def _table(self, context: Context, heads: list[Dimension], memory: Dimension) -> Tensor:
        """The rows of the learned logits that the positions have."""
        query = Dimension("synthetic_query", self.table_length)
        mesh, dtype = context.mesh, context.variable_dtype
        if self.synthesize_mode != "factorized":
            table = mtf.get_variable(
                mesh, "synthetic_logits", Shape([*heads, query, memory]), dtype
            )
            return _rows(context, table, query)
        left = mtf.get_variable(mesh, "synthetic_left", Shape([*heads, query, _RANK]), dtype)
        right = mtf.get_variable(mesh, "synthetic_right", Shape([*heads, memory, _RANK]), dtype)
        rows = _rows(context, left, query)
        return mtf.einsum([rows, right], rows.shape - _RANK + memory)

    def _mixed(self, context: Context, products: Tensor, synthetic: Tensor) -> Tensor:
        if self.synthesize_mode.endswith("alpha"):
            alpha = mtf.get_variable(
                context.mesh, "alpha", Shape(), context.variable_dtype, constant(0.5)
            )
            alpha = mtf.to_float(alpha)
            products, synthetic = products * alpha, synthetic * (1.0 - alpha)
        return mtf.add(products, synthetic, output_shape=products.shape)

    def _check_length(self, context: Context) -> None:
        if context.memory_length_dim.size > self.table_length:
            raise ConfigError(
                f"Sequences of {context.memory_length_dim.size} positions, and "
                f"{type(self).__name__} has logits for {self.table_length}: bind "
                "Synthesizer.table_length to the longest sequence."
            )


def _rows(context: Context, table: Tensor, query: Dimension) -> Tensor:
    """What a table [..., query, ...] has for the present positions: [..., length, ...]."""
    if context.incremental:
        return mtf.gather(table, context.position, query)
    rows = mtf.slice(table, 0, context.length_dim.size, query.name)
    return mtf.rename_dimension(rows, query.name, context.length_dim.name)
