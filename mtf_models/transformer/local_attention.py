"""Self-attention to a window around each position."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.attention import MASKED, attention
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.transformer.attend import attention_options
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.attention_faults import check_types, check_without
from mtf_models.transformer.context import Context
from mtf_models.transformer.projections import AttentionProjections
from mtf_models.transformer.rotary import rotated

_SMALLEST_BLOCK = 128


@configurable(module="mesh_tensorflow.transformer.transformer_layers")
class LocalSelfAttention(SelfAttention):
    """Attention to positions that are near: in blocks that see the margins of their neighbours.

    In an autoregressive stack a position sees itself and the `radius - 1` before it, else also the
    `radius` after it, as in the original. Time and memory grow with the length times the radius.
    Decoding keeps `radius` positions.

    Args:
        radius: how far a position sees, itself counted.
        num_heads: as for `SelfAttention`, like what is not named here.
        num_memory_heads: as there.
        key_value_size: as there.
        shared_kv: as there.
        dropout_rate: as there.
        attention_kwargs: as there.
        relative_attention_type: None or "rotary", as there.
        rotary_base: as there.
        look_ahead: how many later positions are seen in a stack that is not autoregressive; None
            for `radius` of them.

    Raises:
        ConfigError: as there; if attention_func, z_loss_coeff or keep_query_heads_dims is bound for
            `SelfAttention`; and if positions have priorities, as in a model whose inputs see each
            other fully.
    """

    def __init__(
        self,
        radius: int = 128,
        num_heads: int = 8,
        num_memory_heads: int = 0,
        key_value_size: int = 128,
        shared_kv: bool = False,
        dropout_rate: float = 0.0,
        attention_kwargs: Mapping[str, Any] | None = None,
        relative_attention_type: str | None = None,
        rotary_base: float = 10000.0,
        look_ahead: int | None = None,
    ) -> None:
        super().__init__(
            num_heads,
            num_memory_heads,
            key_value_size,
            shared_kv,
            dropout_rate,
            attention_kwargs,
            relative_attention_type=relative_attention_type,
            rotary_base=rotary_base,
        )
        require_positive(type(self).__name__, radius=radius)
        check_types(self, relative_attention_type, (None, "rotary"))
        if look_ahead is not None and look_ahead < 0:
            raise ConfigError(
                f"{type(self).__name__}.look_ahead is {look_ahead}: give a number of positions, or "
                "None for radius."
            )
        check_without(self, "attention_func", "z_loss_coeff", "keep_query_heads_dims")
        self.radius = radius
        self.look_ahead = radius if look_ahead is None else look_ahead

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        if context.autoregressive and not context.fully_autoregressive:
            raise ConfigError(
                "LocalSelfAttention sees positions by their distance, and this model's inputs see "
                "each other fully (Unitransformer.input_full_attention): take SelfAttention there."
            )
        maps = self.projections(context)
        q, k = maps.query(x), maps.key(x)
        v = k if self.shared_kv else maps.value(x)
        if self.relative_attention_type == "rotary":
            q, k = (rotated(t, context.position, maps.key_dim, self.rotary_base) for t in (q, k))
        see = self._step if context.incremental else self._blocks
        return maps.output(see(context, maps, q, k, v))

    def _step(
        self, context: Context, maps: AttentionProjections, q: Tensor, k: Tensor, v: Tensor
    ) -> Tensor:
        count = min(self.radius, context.memory_length_dim.size)
        one = k
        k = context.recent("k", k, count)
        v = k if v is one else context.recent("v", v, count)
        window = Dimension("window", count)
        place = mtf.reshape(context.position, Shape()) - (count - 1)
        place = mtf.mtf_range(context.mesh, window) + place
        bias = mtf.to_float(mtf.less(place, 0)) * MASKED
        return attention(
            q, k, v, window, maps.key_dim, maps.key_dim, bias, **attention_options(self, context)
        )

    def _blocks(
        self, context: Context, maps: AttentionProjections, q: Tensor, k: Tensor, v: Tensor
    ) -> Tensor:
        count = min(self.radius, context.cache_length)
        context.remember("k", k, count)
        if v is not k:
            context.remember("v", v, count)
        blocks = Blocks(context, self.radius, self.look_ahead)
        options = attention_options(self, context)
        alike = options["dropout_broadcast_dims"]
        options["dropout_broadcast_dims"] = blocks.parts_of(alike, blocks.seen)
        memory = blocks.memory(k)
        y = attention(
            blocks.queries(q),
            memory,
            memory if v is k else blocks.memory(v),
            blocks.seen,
            maps.key_dim,
            maps.key_dim,
            blocks.bias(),
            **options,
        )
        return blocks.joined(y)


class Blocks:
    """The positions of a sequence in blocks, and what each block sees."""

    def __init__(self, context: Context, radius: int, look_ahead: int) -> None:
        self.context = context
        self.length = length = context.length_dim
        self.radius = radius
        parts = context.mesh.splits(length)
        each = -(-length.size // parts)
        size = min(max(radius, _SMALLEST_BLOCK), each)
        # The blocks are called like the positions, so that they are split in the same way.
        self.number = Dimension(length.name, parts * -(-each // size))
        self.inside = Dimension("block_length", size)
        self.latest = 0 if context.autoregressive else look_ahead
        self.margin = max(radius - 1, self.latest)
        margins = self.margin if context.autoregressive else 2 * self.margin
        self.seen = Dimension("memory_block_length", size + margins)

    def parts_of(self, names: Sequence[str], seen: Dimension) -> list[Dimension | str]:
        """Dimensions of logits, in blocks: what length and memory length, by name, become."""
        parts = {
            self.length.name: (self.number, self.inside),
            self.context.memory_length_dim.name: (seen,),
        }
        return list(itertools.chain(*(parts.get(name, (name,)) for name in names)))

    def queries(self, x: Tensor) -> Tensor:
        """[batch, length, ...] to [batch, blocks, block_length, ...]."""
        more = self.number.size * self.inside.size - self.length.size
        if more:
            x = mtf.pad(x, [0, more], self.length.name)
        whole = x.shape.get_dim_by_name(self.length.name)
        return mtf.replace_dimensions(x, whole, [self.number, self.inside])

    def memory(self, x: Tensor) -> Tensor:
        """[batch, length, ...] to [batch, blocks, memory_block_length, ...], zeros beyond ends."""
        x = mtf.rename_dimension(self.queries(x), self.inside.name, self.seen.name)
        here = x.shape.get_dim_by_name(self.seen.name)
        exchange = mtf.left_halo_exchange if self.context.autoregressive else mtf.halo_exchange
        return exchange(x, self.number, here, self.margin)

    def joined(self, x: Tensor) -> Tensor:
        """The inverse of `queries`."""
        whole = Dimension(self.length.name, self.number.size * self.inside.size)
        x = mtf.replace_dimensions(x, [self.number, self.inside], whole)
        return mtf.slice(x, 0, self.length.size, whole.name) if whole != self.length else x

    def bias(self) -> Tensor:
        """[batch, blocks, block_length, memory_block_length], or without batch, in float32."""
        # From 1 on, so that the zeros beyond the ends are told from the first position.
        position = mtf.mtf_range(self.context.mesh, self.length) + 1
        query, memory = self.queries(position), self.memory(position)
        shape = query.shape + self.seen
        distance = mtf.sub(memory, query, output_shape=shape)
        hidden = [
            mtf.less(distance, 1 - self.radius),
            mtf.greater(distance, self.latest),
            mtf.equal(memory, 0, output_shape=shape),
        ]
        sequence = self.context.sequence_id
        if sequence is not None:
            ids = self.queries(sequence), self.memory(sequence)
            hidden.append(mtf.not_equal(*ids, output_shape=ids[0].shape + self.seen))
        bias = None
        for mask in hidden:
            term = mtf.to_float(mask) * MASKED
            bias = term if bias is None else mtf.add(bias, term, output_shape=term.shape)
        return bias
