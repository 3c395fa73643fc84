"""Attention to the blocks beside one's own, along a row of pixels or in an image."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.layers.attention_masks import (
    attention_bias_local_2d_block,
    attention_bias_local_block,
)
from mtf_models.layers.multihead_attention import (
    dot_product_attention,
    multihead_attention_vars,
)
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType


def local_1d_halo_exchange(
    k: Tensor, v: Tensor, num_w_blocks: Dimension | None, w_dim: Dimension, mask_right: bool
) -> tuple[Tensor, Tensor]:
    """Keys and values with those of the block before, and unless `mask_right` of the one after.

    Args:
        k: [..., num_w_blocks, w, kv].
        v: alike.
        num_w_blocks: the blocks, or None for a single one.
        w_dim: the positions of a block, of which there will be twice or three times as many.
        mask_right: whether there is nothing to be seen to the right.
    """
    return local_2d_halo_exchange(k, v, None, None, num_w_blocks, w_dim, mask_right)


def local_2d_halo_exchange(
    k: Tensor,
    v: Tensor,
    num_h_blocks: Dimension | None,
    h_dim: Dimension | None,
    num_w_blocks: Dimension | None,
    w_dim: Dimension | None,
    mask_right: bool,
) -> tuple[Tensor, Tensor]:
    """Keys and values with those of the blocks beside each one; zeros beyond the image.

    Args:
        k: [..., num_h_blocks, num_w_blocks, h, w, kv].
        v: alike.
        num_h_blocks: the blocks above each other, or None for a single one.
        h_dim: the rows of a block; None for no exchange along them.
        num_w_blocks: the blocks beside each other, or None for a single one.
        w_dim: the columns of a block; None for no exchange along them.
        mask_right: whether only blocks above and to the left are seen.
    """
    exchange = mtf.left_halo_exchange if mask_right else mtf.halo_exchange
    for blocks, inside in ((num_h_blocks, h_dim), (num_w_blocks, w_dim)):
        if inside is not None:
            k, v = (exchange(x, blocks, inside, inside.size) for x in (k, v))
    return k, v


def local_self_attention_spatial_blocks(
    query_antecedent: Tensor,
    kv_channels: Dimension,
    heads: Dimension,
    memory_w_dim: Dimension | None = None,
    mask_right: bool = False,
    variable_dtype: VariableDType | None = None,
    name: str = "multihead_attention",
) -> Tensor:
    """Attention to one's own block and those beside it, in the variable `<name>/qkvo`.

    Beyond the first and the last block there are keys and values of zeros, seen like the others.

    Args:
        query_antecedent: [batch, num_w_blocks, w, io].
        kv_channels: the width of a head.
        heads: attention heads.
        memory_w_dim: what to call the positions that are seen, of the size of w; by default
            `memory_` and the name of w.
        mask_right: whether only the block before is seen, and of one's own no position to the
            right.
        variable_dtype: dtypes of the variable; by default float32, activations as the input.
        name: the variable scope.

    Returns:
        The shape of `query_antecedent`.

    Raises:
        ShapeError: if there are not four dimensions, or `memory_w_dim` has another size.
    """
    return _attention(
        query_antecedent, kv_channels, heads, [memory_w_dim], mask_right, variable_dtype, name
    )


def local_2d_self_attention_spatial_blocks(
    query_antecedent: Tensor,
    kv_channels: Dimension,
    heads: Dimension,
    memory_h_dim: Dimension | None = None,
    memory_w_dim: Dimension | None = None,
    mask_right: bool = False,
    variable_dtype: VariableDType | None = None,
    name: str = "multihead_attention",
) -> Tensor:
    """`local_self_attention_spatial_blocks` in an image: the weights of all pixels seen sum to 1.

    Args:
        query_antecedent: [batch, num_h_blocks, num_w_blocks, h, w, io].
        kv_channels: the width of a head.
        heads: attention heads.
        memory_h_dim: what to call the rows that are seen, of the size of h.
        memory_w_dim: what to call the columns that are seen, of the size of w.
        mask_right: whether only blocks above and to the left are seen, and of these no later rows
            than the pixel's, nor in its row columns to its right.
        variable_dtype: dtypes of the variable; by default float32, activations as the input.
        name: the variable scope.

    Returns:
        The shape of `query_antecedent`.

    Raises:
        ShapeError: if there are not six dimensions, or a memory dimension has another size.
    """
    memories = [memory_h_dim, memory_w_dim]
    return _attention(
        query_antecedent, kv_channels, heads, memories, mask_right, variable_dtype, name
    )


def _attention(
    x: Tensor,
    kv: Dimension,
    heads: Dimension,
    memories: Sequence[Dimension | None],
    mask_right: bool,
    variable_dtype: VariableDType | None,
    name: str,
) -> Tensor:
    rank = len(memories)
    _check(x, memories)
    batch, *blocks = x.shape.dims[: 1 + rank]
    inside, io = x.shape.dims[1 + rank : -1], x.shape.dims[-1]
    seen = [
        m or Dimension(f"memory_{d.name}", d.size) for m, d in zip(memories, inside, strict=True)
    ]
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    with mtf.variable_scope(name):
        w = multihead_attention_vars(x.mesh, heads, io, kv, dtype)
    q = mtf.einsum([x, w.wq], output_shape=Shape([batch, heads, *blocks, *inside, kv]))
    memory = x
    for before, after in zip(inside, seen, strict=True):
        memory = mtf.rename_dimension(memory, before.name, after.name)
    shape = Shape([batch, heads, *blocks, *seen, kv])
    k, v = (mtf.einsum([memory, matrix], output_shape=shape) for matrix in (w.wk, w.wv))
    alone = [None] * (4 - 2 * rank)
    pairs = [d for pair in zip(blocks, seen, strict=True) for d in pair]
    k, v = local_2d_halo_exchange(k, v, *alone, *pairs, mask_right)
    wide = k.shape.dims[-1 - rank : -1]
    mask = None
    if mask_right:
        bias = attention_bias_local_block if rank == 1 else attention_bias_local_2d_block
        mask = bias(x.mesh, *inside, *wide, dtype=x.dtype)
    q, k, v, mask = _in_a_row(q, k, v, mask, inside, wide)
    o = dot_product_attention(q, k, v, mask)
    o = mtf.reshape(o, Shape([batch, heads, *blocks, *inside, kv]))
    return mtf.einsum([o, w.wo], output_shape=x.shape)


def _in_a_row(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    inside: Sequence[Dimension],
    seen: Sequence[Dimension],
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The pixels of a block, and those that it sees, along one dimension each."""
    length, memory = mtf.combined_dimension(inside), mtf.combined_dimension(seen)
    q = mtf.replace_dimensions(q, inside, [length])
    k, v = (mtf.replace_dimensions(x, seen, [memory]) for x in (k, v))
    return q, k, v, None if mask is None else mtf.reshape(mask, Shape([length, memory]))


def _check(x: Tensor, memories: Sequence[Dimension | None]) -> None:
    rank = len(memories)
    inside = x.shape.dims[1 + rank : -1]
    refuse(
        f"attention in blocks of {x.shape}",
        [
            f"{x.shape.ndims} dimensions are there, where it takes {2 * rank + 2}"
            if x.shape.ndims != 2 * rank + 2
            else None,
            *(
                f"{memory} is not of the size of {d}"
                for memory, d in zip(memories, inside, strict=False)
                if memory is not None and memory.size != d.size
            ),
        ],
    )
