"""Multi-head attention whose four projections are one variable: the original's first form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.layers.attention_masks import hidden_where, rename_length_to_memory_length
from mtf_models.layers.pooling import compress_mean
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import Initializer, random_normal

_PARTS = Dimension("qkvo", 4)


class Projections(NamedTuple):
    """[heads, io, kv] each: of queries, keys and values, and back from the heads' outputs."""

    wq: Tensor
    wk: Tensor
    wv: Tensor
    wo: Tensor


def multihead_attention_params(
    mesh: Mesh,
    heads: Dimension,
    io_channels: Dimension,
    kv_channels: Dimension,
    variable_dtype: VariableDType | None = None,
    combine: bool = False,
) -> Projections:
    """The variables of multi-head attention, drawn so that logits need no scale.

    Args:
        mesh: where they live.
        heads: attention heads.
        io_channels: what attention reads and writes.
        kv_channels: the width of a head.
        variable_dtype: their dtypes, by default float32.
        combine: whether they are one variable `qkvo` [qkvo=4, heads, io, kv], else `q`, `k`, `v`
            and `o`.
    """
    dtype = variable_dtype or VariableDType()
    shape = Shape([heads, io_channels, kv_channels])
    inside = io_channels.size**-0.5
    stddevs = [inside * kv_channels.size**-0.25] * 2 + [inside]
    stddevs.append((heads.size * kv_channels.size) ** -0.5)
    if not combine:
        return Projections(
            *(
                mtf.get_variable(mesh, name, shape, dtype, random_normal(stddev))
                for name, stddev in zip("qkvo", stddevs, strict=True)
            )
        )
    whole = Shape([_PARTS, *shape])
    variable = mtf.get_variable(mesh, "qkvo", whole, dtype, _stacked(stddevs))
    return Projections(*mtf.unstack(variable, _PARTS))


def multihead_attention_vars(
    mesh: Mesh,
    heads: Dimension,
    io_channels: Dimension,
    kv_channels: Dimension,
    variable_dtype: VariableDType | None = None,
) -> Projections:
    """`multihead_attention_params` with one variable `qkvo`."""
    return multihead_attention_params(
        mesh, heads, io_channels, kv_channels, variable_dtype, combine=True
    )


def dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    is_training: bool = False,
    dropout: float = 0.0,
    dropout_broadcast_dims: Sequence[Dimension] | None = None,
    extra_logit: Tensor | float | None = None,
) -> Tensor:
    """softmax(q k + mask) v, the dimensions told by their places.

    Args:
        q: [..., length_q, depth_k].
        k: [..., length_kv, depth_k].
        v: [..., length_kv, depth_v].
        mask: added to the logits, broadcast by name; or None.
        is_training: whether to drop attention weights.
        dropout: the part of the weights that is dropped.
        dropout_broadcast_dims: dimensions along which the same weights are dropped.
        extra_logit: one more logit in the denominator, so that attention may go nowhere.

    Returns:
        [..., length_q, depth_v].
    """
    memory, depth_k = k.shape.dims[-2:]
    depth_v = v.shape.dims[-1]
    logits = mtf.einsum([q, k], output_shape=q.shape - depth_k + memory)
    if mask is not None:
        logits += mtf.cast(mask, logits.dtype)
    weights = attention_weights(logits, memory, extra_logit)
    noise = weights.shape - list(dropout_broadcast_dims or ())
    weights = mtf.dropout(weights, is_training, rate=dropout, noise_shape=noise)
    return mtf.einsum([weights, v], output_shape=q.shape - depth_k + depth_v)


def attention_weights(
    logits: Tensor, memory: Dimension, extra_logit: Tensor | float | None = None
) -> Tensor:
    """The softmax of logits in float32, in their own dtype.

    Args:
        logits: has `memory`.
        memory: what is attended to.
        extra_logit: one more logit in the denominator.
    """
    return mtf.cast(mtf.softmax(mtf.to_float(logits), memory, extra_logit), logits.dtype)


def multihead_attention(
    query_antecedent: Tensor,
    memory_antecedent: Tensor | None,
    mask: Tensor | None,
    kv_channels: Dimension,
    heads: Dimension,
    is_training: bool = False,
    dropout: float = 0.0,
    dropout_broadcast_dims: Sequence[Dimension] | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "multihead_attention",
) -> Tensor:
    """Attention of several heads (Vaswani et al. 2017), in the variable `<name>/qkvo`.

    Args:
        query_antecedent: [batch, length, io].
        memory_antecedent: [batch, memory_length, io], or None: what asks is asked.
        mask: added to the logits, broadcast by name; or None.
        kv_channels: the width of a head.
        heads: attention heads.
        is_training: whether to drop attention weights.
        dropout: the part of the weights that is dropped.
        dropout_broadcast_dims: dimensions along which the same weights are dropped.
        variable_dtype: dtypes of the variable; by default float32, activations as the input.
        name: the variable scope.

    Returns:
        The shape of `query_antecedent`.
    """
    x = query_antecedent
    memory = rename_length_to_memory_length(x) if memory_antecedent is None else memory_antecedent
    w = _projections(x, heads, kv_channels, variable_dtype, name)
    q = mtf.einsum([x, w.wq], output_shape=_with_heads(x.shape, w.wq))
    k = mtf.einsum([memory, w.wk], output_shape=_with_heads(memory.shape, w.wk))
    v = mtf.einsum([memory, w.wv], output_shape=_with_heads(memory.shape, w.wv))
    o = dot_product_attention(q, k, v, mask, is_training, dropout, dropout_broadcast_dims)
    return mtf.einsum([o, w.wo], output_shape=x.shape)


def multihead_self_attention_incremental(
    query_antecedent: Tensor,
    prev_k: Tensor,
    prev_v: Tensor,
    step_num: Tensor,
    variable_dtype: VariableDType | None = None,
    name: str = "multihead_attention",
) -> tuple[Tensor, Tensor, Tensor]:
    """One position of `multihead_attention` that sees itself and what came before.

    Args:
        query_antecedent: [batch, io].
        prev_k: [batch, heads, memory_length, kv], the keys of earlier positions.
        prev_v: alike, the values.
        step_num: int32 scalar, the position.
        variable_dtype: as for `multihead_attention`.
        name: the variable scope.

    Returns:
        [batch, io], and the keys and values with this position's.
    """
    x = query_antecedent
    heads, memory, kv = prev_k.shape.dims[-3:]
    w = _projections(x, heads, kv, variable_dtype, name)
    position = mtf.mtf_range(x.mesh, memory)
    here = mtf.equal(position, step_num)
    q = mtf.einsum([x, w.wq], output_shape=prev_k.shape - memory)
    new_k, new_v = (
        mtf.where(here, mtf.einsum([x, part], prev.shape - memory), prev, prev.shape)
        for part, prev in ((w.wk, prev_k), (w.wv, prev_v))
    )
    mask = hidden_where(mtf.greater(position, step_num), q.dtype)
    logits = mtf.einsum([q, new_k], output_shape=q.shape - kv + memory) + mask
    o = mtf.einsum([attention_weights(logits, memory), new_v], output_shape=q.shape)
    return mtf.einsum([o, w.wo], output_shape=x.shape), new_k, new_v


def multihead_encdec_attention_incremental(
    query_antecedent: Tensor, wq: Tensor, wo: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> Tensor:
    """One position's attention to a memory whose keys and values are ready.

    Args:
        query_antecedent: [batch, io].
        wq: [heads, io, kv].
        wo: [heads, io, kv].
        k: [batch, heads, memory_length, kv].
        v: alike.
        mask: added to the logits, broadcast by name; or None.

    Returns:
        [batch, io].
    """
    memory, kv = k.shape.dims[-2:]
    q = mtf.einsum([query_antecedent, wq], output_shape=k.shape - memory)
    logits = mtf.einsum([q, k], output_shape=q.shape - kv + memory)
    if mask is not None:
        logits += mtf.cast(mask, logits.dtype)
    o = mtf.einsum([attention_weights(logits, memory), v], output_shape=q.shape)
    return mtf.einsum([o, wo], output_shape=query_antecedent.shape)


def multihead_self_attention_memory_compressed(
    x: Tensor,
    mask_right: bool,
    compression_factor: int,
    kv_channels: Dimension,
    heads: Dimension,
    is_training: bool = False,
    dropout: float = 0.0,
    dropout_broadcast_dims: Sequence[Dimension] | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "multihead_attention",
) -> Tensor:
    """Self-attention to the means of neighbours (Liu et al. 2018), or to nothing: an extra logit.

    Args:
        x: [batch, length, io].
        mask_right: whether a position sees only the means that end at it or before.
        compression_factor: how many neighbours a mean is of; it divides the length.
        kv_channels: the width of a head.
        heads: attention heads.
        is_training: whether to drop attention weights.
        dropout: the part of the weights that is dropped.
        dropout_broadcast_dims: dimensions along which the same weights are dropped.
        variable_dtype: as for `multihead_attention`.
        name: the variable scope, with the variable `qkvo`.

    Returns:
        The shape of `x`.
    """
    length = x.shape.get_dim_by_name("length")
    memory = compress_mean(rename_length_to_memory_length(x), _memory(length), compression_factor)
    w = _projections(x, heads, kv_channels, variable_dtype, name)
    mask = None
    if mask_right:
        last = mtf.mtf_range(x.mesh, memory.shape.get_dim_by_name("memory_length"))
        last = last * compression_factor + (compression_factor - 1)
        mask = hidden_where(mtf.less(mtf.mtf_range(x.mesh, length), last), x.dtype)
    q = mtf.einsum([x, w.wq], output_shape=_with_heads(x.shape, w.wq))
    k = mtf.einsum([memory, w.wk], output_shape=_with_heads(memory.shape, w.wk))
    v = mtf.einsum([memory, w.wv], output_shape=_with_heads(memory.shape, w.wv))
    o = dot_product_attention(
        q, k, v, mask, is_training, dropout, dropout_broadcast_dims, extra_logit=0.0
    )
    return mtf.einsum([o, w.wo], output_shape=x.shape)


def _memory(length: Dimension) -> Dimension:
    return Dimension("memory_length", length.size)


def _projections(
    x: Tensor,
    heads: Dimension,
    kv_channels: Dimension,
    variable_dtype: VariableDType | None,
    name: str,
) -> Projections:
    clash = [d for d in (heads, kv_channels) if x.shape.has(d.name)]
    refuse(
        f"{name} on {x.shape}", [f"the input has {', '.join(map(str, clash))}" if clash else None]
    )
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    with mtf.variable_scope(name):
        return multihead_attention_vars(x.mesh, heads, x.shape.dims[-1], kv_channels, dtype)


def _with_heads(shape: Shape, w: Tensor) -> Shape:
    """[..., heads, length, kv] of [..., length, io]."""
    heads, io, kv = w.shape
    *batch, length = (shape - io).dims
    return Shape([*batch, heads, length, kv])


def _stacked(stddevs: Sequence[float]) -> Initializer:
    """Each part along the first axis of its own standard deviation."""

    def draw(sizes: Sequence[int], seed: tf.Tensor) -> tf.Tensor:
        scales = tf.reshape(tf.constant(stddevs), [-1] + [1] * (len(sizes) - 1))
        return tf.random.stateless_normal(sizes, seed) * scales

    return draw
