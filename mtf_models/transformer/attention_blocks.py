"""Attention of a few queries at a time, so that not all logits are in memory at once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import require_positive
from mtf_models.layers.attention import dropout_noise
from mtf_models.mesh import Dimension, Mesh, Tensor
from mtf_models.transformer.context import Context


@configurable(module="mtf_models.transformer.attention_blocks")
def rows_at_once(
    mesh: Mesh,
    length: Dimension,
    memory_length: Dimension,
    longest_whole: int = 2048,
    block_length: int = 512,
) -> int | None:
    """How many queries are attended for at a time; None for all.

    Args:
        mesh: where they lie; the queries of a block are divided over it like all.
        length: of the queries.
        memory_length: what they attend to.
        longest_whole: up to the square of this number of logits for each head, all at once.
        block_length: how many queries a block has else, at the most.
    """
    require_positive("rows_at_once", longest_whole=longest_whole, block_length=block_length)
    if length.size * memory_length.size <= longest_whole**2:
        return None
    parts = mesh.splits(length)
    size = max(block_length // parts, 1) * parts
    return size if size < length.size else None


def in_blocks(
    see: Callable[..., list[Tensor]],
    context: Context,
    size: int,
    qkv: tuple[Tensor, Tensor, Tensor],
    key_dim: Dimension,
    options: dict[str, Any],
) -> list[Tensor]:
    """The results of attention, of `size` queries at a time, joined.

    No more than a block's logits are in memory: in the backward pass they are computed again (Rabe
    and Staats 2021, with blocks of queries only).

    Args:
        see: takes the context of some queries, queries, keys, values and options; returns tensors
            that have the dimension of the queries.
        context: of all queries.
        size: how many there are in a block.
        qkv: queries, keys and values.
        key_dim: the width of queries and keys.
        options: for `see`. The same weights are dropped in all blocks where they are dropped for
            all queries.
    """
    # The context may have changed when a block is computed again: a funnel shortens it.
    context = dataclasses.replace(context)
    q, k, v = qkv
    length, inputs = context.length_dim, [k, v]
    alike = options["dropout_broadcast_dims"]
    if context.is_training and options["dropout_rate"] and length.name in alike:
        inputs.append(dropout_noise(q, k, key_dim, options["dropout_rate"], alike))
        options = {**options, "dropout_rate": 0.0, "dropout_broadcast_dims": []}

    def run(begin: int, q: Tensor, k: Tensor, v: Tensor, *noise: Tensor) -> list[Tensor]:
        drawn = {"noise": noise[0]} if noise else {}
        rows = context.rows(begin, q.shape.get_dim_by_name(length.name).size)
        return see(_of_unknown_position(rows, q), q, k, v, **options, **drawn)

    return mtf.in_blocks(run, [q], inputs, length, size)


def _of_unknown_position(rows: Context, q: Tensor) -> Context:
    """The context, with positions that TensorFlow does not know before it has the queries.

    It could else compute the distances of every block of every layer when it compiles, and keep
    them.
    """
    none = mtf.to_int32(mtf.greater(mtf.reduce_max(mtf.stop_gradient(q)), math.inf))
    return dataclasses.replace(rows, position=rows.position + none)
