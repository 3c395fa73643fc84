"""Attention to a window before each position, computed in blocks that exchange margins."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.layers.attention_masks import hidden_where
from mtf_models.layers.multihead_attention import (
    Projections,
    attention_weights,
    multihead_attention_vars,
)
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType


def masked_local_attention_1d(
    x: Tensor,
    kv_channels: Dimension,
    heads: Dimension,
    is_training: bool = False,
    window_size: int = 128,
    length_per_split: int | None = None,
    return_kv: list[Tensor] | None = None,
    params: Projections | None = None,
    dropout: float = 0.0,
    variable_dtype: VariableDType | None = None,
    name: str = "masked_local_attention_1d",
) -> Tensor:
    """Attention to positions before and at a query, in blocks with a margin before each.

    As in the original the length is cut into blocks of one size, the largest divisor of
    `length_per_split` that is at most max(`window_size`, 128). A position sees itself, the
    positions of its block before it, and the `window_size` before the block, but none that is a
    block's size or more before it. Before the first position there are keys and values of zeros,
    which are seen like the others.

    Args:
        x: [batch, length, io].
        kv_channels: the width of a head.
        heads: attention heads.
        is_training: whether to drop attention weights.
        window_size: how many positions before its block each one may see.
        length_per_split: what a block divides, by default the length; that of a part of a mesh.
        return_kv: a list to which the keys and values are added, [batch, length, heads, kv].
        params: projections to use in place of the variable `<name>/qkvo`.
        dropout: the part of the attention weights that is dropped in training.
        variable_dtype: dtypes of the variable; by default float32, activations as `x`.
        name: the variable scope.

    Returns:
        The shape of `x`.

    Raises:
        ShapeError: if the window is empty or `length_per_split` does not divide the length.
    """
    *batch, length, _ = x.shape.dims
    per_split = length.size if length_per_split is None else length_per_split
    divides = per_split > 0 and length.size % per_split == 0
    refuse(
        f"masked_local_attention_1d on {x.shape}",
        [
            f"a window of {window_size} is empty" if window_size < 1 else None,
            f"length_per_split {per_split} does not divide {length}" if not divides else None,
        ],
    )
    if params is None:
        params = _params(x, heads, kv_channels, variable_dtype, name)
    shape = Shape([*batch, length, heads, kv_channels])
    q, k, v = (mtf.einsum([x, w], output_shape=shape) for w in (params.wq, params.wk, params.wv))
    if return_kv is not None:
        return_kv.extend([k, v])
    longest = max(window_size, 128)
    size = max(n for n in range(1, longest + 1) if per_split % n == 0)
    o = _in_blocks(q, k, v, length, size, window_size, is_training, dropout)
    return mtf.einsum([o, params.wo], output_shape=x.shape)


def masked_local_attention_1d_incremental(
    x: Tensor,
    prev_k: Tensor,
    prev_v: Tensor,
    step_num: Tensor,
    params: Projections | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "masked_local_attention_1d",
) -> tuple[Tensor, Tensor, Tensor]:
    """One position of `masked_local_attention_1d`.

    Args:
        x: [batch, io].
        prev_k: [batch, heads, window, kv], the keys of the last positions: that of position p is
            at p modulo the window; zeros at first.
        prev_v: alike, the values.
        step_num: int32 scalar, the position.
        params: projections to use in place of the variable `<name>/qkvo`.
        variable_dtype: as for `masked_local_attention_1d`.
        name: the variable scope.

    Returns:
        [batch, io], and the keys and values with this position's.
    """
    heads, window, kv = prev_k.shape.dims[-3:]
    if params is None:
        params = _params(x, heads, kv, variable_dtype, name)
    place = mtf.mtf_range(x.mesh, window)
    here = mtf.equal(place, step_num % window.size)
    q = mtf.einsum([x, params.wq], output_shape=prev_k.shape - window)
    new_k, new_v = (
        mtf.where(here, mtf.einsum([x, w], prev.shape - window), prev, prev.shape)
        for w, prev in ((params.wk, prev_k), (params.wv, prev_v))
    )
    logits = mtf.einsum([q, new_k], output_shape=q.shape - kv + window)
    o = mtf.einsum([attention_weights(logits, window), new_v], output_shape=q.shape)
    return mtf.einsum([o, params.wo], output_shape=x.shape), new_k, new_v


def _params(
    x: Tensor,
    heads: Dimension,
    kv_channels: Dimension,
    variable_dtype: VariableDType | None,
    name: str,
) -> Projections:
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    with mtf.variable_scope(name):
        return multihead_attention_vars(x.mesh, heads, x.shape.dims[-1], kv_channels, dtype)


def _in_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    length: Dimension,
    size: int,
    window: int,
    is_training: bool,
    dropout: float,
) -> Tensor:
    """[..., length, heads, kv]: each block sees itself and the margin before it."""
    mesh = q.mesh
    # The blocks are called like the length, so that they are split where it is.
    blocks, block = Dimension(length.name, length.size // size), Dimension("block_length", size)
    memory = Dimension("memory_length", window + size)
    q, k, v = (mtf.replace_dimensions(t, length, [blocks, block]) for t in (q, k, v))
    k, v = (
        mtf.rename_dimension(
            mtf.left_halo_exchange(t, blocks, block, window), block.name, memory.name
        )
        for t in (k, v)
    )
    query = mtf.mtf_range(mesh, block) + window
    seen = mtf.mtf_range(mesh, memory)
    outside = mtf.logical_or(mtf.greater(seen, query), mtf.less_equal(seen, query - size))
    kv = q.shape.dims[-1]
    logits = mtf.einsum([q, k], output_shape=q.shape - kv + memory)
    weights = attention_weights(logits + hidden_where(outside, logits.dtype), memory)
    weights = mtf.dropout(weights, is_training, rate=dropout)
    o = mtf.einsum([weights, v], output_shape=q.shape)
    return mtf.replace_dimensions(o, [blocks, block], length)
