"""Attention over a named memory dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.layers.clipping import soft_cap
from mtf_models.mesh import Dimension, Shape, Tensor

MASKED = -1e9
"""Added to the logits of positions that must not be seen."""


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    memory_length_dim: Dimension,
    key_dim: Dimension,
    value_dim: Dimension,
    bias: Tensor | None = None,
    is_training: bool = False,
    dropout_rate: float = 0.0,
    dropout_broadcast_dims: Sequence[Dimension | str] = (),
    extra_logit: float | None = None,
    float32_logits: bool = True,
    observe: Callable[[Tensor], None] | None = None,
    noise: Tensor | None = None,
    logits_soft_cap: float | None = None,
) -> Tensor:
    """softmax(q k + bias) v (Vaswani et al. 2017, section 3.2.1; the scale is the caller's).

    Args:
        q: [..., key_dim], for example [batch, length, heads, d_kv].
        k: [..., memory_length, key_dim].
        v: [..., memory_length, value_dim].
        memory_length_dim: the positions that are attended to.
        key_dim: summed out of q and k.
        value_dim: the width of the values.
        bias: added to the logits, broadcast by name: masks and relative positions.
        is_training: whether to drop attention weights.
        dropout_rate: the part of the weights that is dropped.
        dropout_broadcast_dims: dimensions, or their names, along which the same weights are
            dropped.
        extra_logit: one more logit in the denominator, so that attention may go nowhere.
        float32_logits: whether logits and softmax are computed in float32.
        observe: is given the logits, bias included.
        noise: multiplies the weights besides: dropout that is drawn elsewhere (`dropout_noise`).
        logits_soft_cap: see `layers.clipping.soft_cap`; applied before the bias.

    Returns:
        The dimensions of `q` with `key_dim` replaced by `value_dim`.
    """
    logits = attention_logits(q, k, key_dim, bias, float32_logits, logits_soft_cap)
    if observe is not None:
        observe(logits)
    weights = _weights(logits, memory_length_dim, extra_logit, v.dtype)
    weights = dropped(weights, is_training, dropout_rate, dropout_broadcast_dims)
    if noise is not None:
        weights = mtf.multiply(weights, mtf.cast(noise, weights.dtype), output_shape=weights.shape)
    return mtf.einsum([weights, v], q.shape - key_dim + value_dim)


def dropout_noise(
    q: Tensor, k: Tensor, key_dim: Dimension, rate: float, broadcast_dims: Sequence[Dimension | str]
) -> Tensor:
    """What dropout in training multiplies the weights of `attention` by, float32.

    Args:
        q: as for `attention`.
        k: as for `attention`.
        key_dim: as for `attention`.
        rate: the part that is dropped.
        broadcast_dims: dimensions, or their names, that it lacks, since the same weights are
            dropped along them.
    """
    shape = _without(_logits_shape(q.shape, k.shape, key_dim), broadcast_dims)
    return mtf.dropout(mtf.ones(q.mesh, shape), is_training=True, rate=rate)


def hybrid_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    length_dim: Dimension,
    memory_length_dim: Dimension,
    key_dim: Dimension,
    value_dim: Dimension,
    doubly: Tensor,
    bias: Tensor | None = None,
    is_training: bool = False,
    dropout_rate: float = 0.0,
    dropout_broadcast_dims: Sequence[Dimension | str] = (),
    extra_logit: float | None = None,
    float32_logits: bool = True,
    observe: Callable[[Tensor], None] | None = None,
    logits_soft_cap: float | None = None,
) -> Tensor:
    """A mixture of softmax and doubly normalised attention (Ding et al. 2020, section 3).

    The doubly normalised weights are normalised over the queries first, so that each memory
    position gives away its share, and then over the memory: a query depends on all others.

    Args:
        q: as for `attention`, like what is not named here.
        k: as for `attention`.
        v: as for `attention`.
        length_dim: the positions of the queries.
        memory_length_dim: the positions that are attended to.
        key_dim: summed out of q and k.
        value_dim: the width of the values.
        doubly: a scalar, the part of the doubly normalised weights; it is clipped to [0, 1].
        bias: added to the logits.
        is_training: whether to drop attention weights.
        dropout_rate: the part of the weights that is dropped.
        dropout_broadcast_dims: dimensions, or their names, along which the same weights are
            dropped.
        extra_logit: one more logit in each denominator.
        float32_logits: whether logits and softmax are computed in float32.
        observe: is given the logits, bias included.
        logits_soft_cap: as for `attention`.
    """
    logits = attention_logits(q, k, key_dim, bias, float32_logits, logits_soft_cap)
    if observe is not None:
        observe(logits)
    single = mtf.softmax(logits, memory_length_dim, extra_logit)
    shares = mtf.log_softmax(logits, length_dim, extra_logit)
    double = mtf.softmax(shares, memory_length_dim, extra_logit)
    part = mtf.cast(mtf.minimum(mtf.maximum(doubly, 0.0), 1.0), logits.dtype)
    weights = mtf.cast(double * part + single * (1.0 - part), v.dtype)
    weights = dropped(weights, is_training, dropout_rate, dropout_broadcast_dims)
    return mtf.einsum([weights, v], q.shape - key_dim + value_dim)


def attention_logits(
    q: Tensor,
    k: Tensor,
    key_dim: Dimension,
    bias: Tensor | None,
    float32_logits: bool = True,
    logits_soft_cap: float | None = None,
) -> Tensor:
    """Q k + bias: the dimensions of q and k without `key_dim`."""
    shape = _logits_shape(q.shape, k.shape, key_dim)

    def in_float32(q: Tensor, k: Tensor) -> Tensor:
        return mtf.einsum([mtf.to_float(q), mtf.to_float(k)], shape)

    def slopes(q: Tensor, k: Tensor, _: Tensor, dy: Tensor) -> list[Tensor]:
        # As narrow as what they become: such products are several times faster.
        dy = mtf.cast(dy, q.dtype)
        return [mtf.einsum([dy, k], q.shape), mtf.einsum([dy, q], k.shape)]

    if float32_logits:
        logits = mtf.custom_gradient(in_float32, slopes, [q, k])
    else:
        logits = mtf.einsum([q, k], shape)
    logits = soft_cap(logits, logits_soft_cap)
    return logits if bias is None else logits + mtf.cast(bias, logits.dtype)


def dropped(
    weights: Tensor, is_training: bool, rate: float, broadcast_dims: Sequence[Dimension | str]
) -> Tensor:
    """Attention weights with dropout, the same along `broadcast_dims`."""
    noise_shape = _without(weights.shape, broadcast_dims)
    return mtf.dropout(weights, is_training, rate=rate, noise_shape=noise_shape)


def _weights(logits: Tensor, dim: Dimension, extra_logit: float | None, dtype: tf.DType) -> Tensor:
    """Softmax in another dtype; nothing but the result is kept for the gradient."""

    def slope(weights: Tensor, dy: Tensor) -> list[Tensor]:
        wide, dy = mtf.to_float(weights), mtf.to_float(dy)
        along = mtf.reduce_sum(wide * dy, reduced_dim=dim)
        return [mtf.cast(wide * (dy - along), logits.dtype)]

    return mtf.custom_gradient(
        lambda x: mtf.cast(mtf.softmax(x, dim, extra_logit), dtype),
        lambda x, y, dy: mtf.fused(("softmax gradient", dim, logits.dtype), slope, [y, dy]),
        [logits],
    )


def _without(shape: Shape, dims: Sequence[Dimension | str]) -> Shape:
    names = [d if isinstance(d, str) else d.name for d in dims]
    return Shape([d for d in shape if d.name not in names])


def _logits_shape(q: Shape, k: Shape, key_dim: Dimension) -> Shape:
    """What both have (batch, heads), then what only q has (length), then memory_length.

    This is the order in which a batched matrix product comes out.
    """
    both = [d for d in q if d in k and d != key_dim]
    return Shape(both + [d for d in q if d not in k] + [d for d in k if d not in q])
