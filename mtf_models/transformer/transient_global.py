"""Self-attention to a window around each position, and to a summary of each block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.attention import MASKED, attention
from mtf_models.layers.normalization import rms_norm
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.transformer.attend import attention_options
from mtf_models.transformer.attention_faults import check_types
from mtf_models.transformer.context import Context
from mtf_models.transformer.local_attention import Blocks, LocalSelfAttention
from mtf_models.transformer.positions import relative_position_bucket
from mtf_models.transformer.projections import AttentionProjections
from mtf_models.transformer.relative_attention import LEARNED, learned_bias, plus, shared_scope
from mtf_models.transformer.sequence_blocks import SequenceBlocks


@configurable(module="mtf_models.transformer.transient_global")
class TransientGlobalSelfAttention(LocalSelfAttention):
    """Local attention with a global side, of encoders (LongT5, Guo et al. 2022, section 3.1.2).

    A position sees those that are nearer than `radius`, and a summary of each block of its
    sequence: the sum of what the block holds, normed, through the maps of keys and values. Nothing
    of them is kept; time and memory grow with the length times radius + length / block.

    Args:
        radius: how far a position sees to both sides, itself counted: LongT5's local_radius and 1.
        global_block_size: how many positions are summed up.
        relative_attention_type: None, "bias" or "bias_shared", as for `SelfAttention`; summaries
            have a bias of their own, `global_relative_attention_bias`, by the number of blocks
            between.
        relative_attention_num_buckets: of each bias.
        **kwargs: as for `LocalSelfAttention`.

    Raises:
        ConfigError: as there, and in a stack that is autoregressive.
    """

    def __init__(
        self,
        radius: int = 128,
        global_block_size: int = 16,
        relative_attention_type: str | None = "bias_shared",
        relative_attention_num_buckets: int = 32,
        **kwargs: Any,
    ) -> None:
        super().__init__(radius, look_ahead=radius - 1, relative_attention_type=None, **kwargs)
        require_positive(
            type(self).__name__,
            global_block_size=global_block_size,
            relative_attention_num_buckets=relative_attention_num_buckets,
        )
        check_types(self, relative_attention_type, (None, *LEARNED))
        self.global_block_size = global_block_size
        self.relative_attention_type = relative_attention_type
        self.relative_attention_num_buckets = relative_attention_num_buckets

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        if context.autoregressive:
            raise ConfigError(
                f"{type(self).__name__} sums up positions that come later, and this stack is "
                "autoregressive: put it into an encoder (encoder/make_layer_stack.layers), or take "
                "LocalSelfAttention."
            )
        maps = self.projections(context)
        blocks = Blocks(context, self.radius, self.look_ahead)
        k, bias = blocks.memory(maps.key(x)), self._local_bias(context, maps, blocks)
        v = k if self.shared_kv else blocks.memory(maps.value(x))
        seen = blocks.seen
        if context.length_dim.size >= self.global_block_size:
            k, v, bias, seen = self._with_summaries(context, x, maps, blocks, (k, v, bias))
        options = attention_options(self, context)
        alike = options["dropout_broadcast_dims"]
        options["dropout_broadcast_dims"] = blocks.parts_of(alike, seen)
        y = attention(
            blocks.queries(maps.query(x)), k, v, seen, maps.key_dim, maps.key_dim, bias, **options
        )
        return maps.output(blocks.joined(y))

    def _with_summaries(
        self,
        context: Context,
        x: Tensor,
        maps: AttentionProjections,
        blocks: Blocks,
        local: tuple[Tensor, Tensor, Tensor],
    ) -> tuple[Tensor, Tensor, Tensor, Dimension]:
        """Keys, values and bias of positions and summaries, and their dimension."""
        k, v, bias = local
        length, rows = context.length_dim, context.sequence_id
        if rows is None:
            rows = mtf.ones(x.mesh, x.shape - context.d_model, tf.int32)
        summed = SequenceBlocks.of(rows, length, self.global_block_size)
        summary = rms_norm(
            summed.sums(x, length), context.d_model, context.variable_dtype, name="global_rms_norm"
        )
        side = self._global_bias(context, maps, rows, summed)

        def joined(near: Tensor, far: Tensor) -> Tensor:
            far = mtf.rename_dimension(far, summed.dim.name, blocks.seen.name)
            far_dim = far.shape.get_dim_by_name(blocks.seen.name)
            more = [d for d in far.shape if d not in near.shape and d != far_dim]
            near = mtf.broadcast(near, Shape(more) + near.shape)
            shape = [far_dim if d == blocks.seen else d for d in near.shape]
            return mtf.concat([near, mtf.broadcast(far, shape)], blocks.seen.name)

        k, one = joined(k, maps.key(summary)), k
        v = k if v is one else joined(v, maps.value(summary))
        bias = joined(bias, blocks.queries(side))
        return k, v, bias, k.shape.get_dim_by_name(blocks.seen.name)

    def _local_bias(self, context: Context, maps: AttentionProjections, blocks: Blocks) -> Tensor:
        mask = blocks.bias()
        name, number = "relative_attention_bias", self.relative_attention_num_buckets

        def bucket() -> Tensor:
            # The same for each block: both are counted from where the block begins.
            shape = Shape([blocks.inside, blocks.seen])
            query = mtf.mtf_range(context.mesh, blocks.inside) + blocks.margin
            memory = mtf.mtf_range(context.mesh, blocks.seen)
            return relative_position_bucket(mtf.sub(memory, query, shape), True, number)

        return self._learned(context, maps, name, bucket, mask)

    def _global_bias(
        self, context: Context, maps: AttentionProjections, rows: Tensor, summed: SequenceBlocks
    ) -> Tensor:
        shape = rows.shape + summed.dim
        mask = mtf.to_float(mtf.not_equal(summed.owner, rows, output_shape=shape)) * MASKED
        name, number = "global_relative_attention_bias", self.relative_attention_num_buckets

        def bucket() -> Tensor:
            memory = mtf.mtf_range(context.mesh, summed.dim)
            return relative_position_bucket(mtf.sub(memory, summed.number, shape), True, number)

        return self._learned(context, maps, name, bucket, mask)

    def _learned(
        self,
        context: Context,
        maps: AttentionProjections,
        name: str,
        bucket: Callable[[], Tensor],
        mask: Tensor,
    ) -> Tensor:
        """A mask with the bias that the layer asks for."""
        if self.relative_attention_type is None:
            return mask
        heads = maps.query_heads_dims
        scope = shared_scope(context, self.relative_attention_type, name, heads)
        number = self.relative_attention_num_buckets
        return plus(learned_bias(context, scope, heads, number, bucket), mask)
