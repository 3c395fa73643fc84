"""Attention over a named memory dimension."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
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
    dropout_broadcast_dims: Sequence[Dimension] = (),
    extra_logit: float | None = None,
    float32_logits: bool = True,
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
        dropout_broadcast_dims: dimensions along which the same weights are dropped.
        extra_logit: one more logit in the denominator, so that attention may go nowhere.
        float32_logits: whether logits and softmax are computed in float32.

    Returns:
        The dimensions of `q` with `key_dim` replaced by `value_dim`.
    """
    if float32_logits:
        q, k = mtf.to_float(q), mtf.to_float(k)
    logits = mtf.einsum([q, k], _logits_shape(q.shape, k.shape, key_dim))
    if bias is not None:
        logits += mtf.cast(bias, logits.dtype)
    weights = mtf.cast(mtf.softmax(logits, memory_length_dim, extra_logit), v.dtype)
    noise_shape = weights.shape - list(dropout_broadcast_dims)
    weights = mtf.dropout(weights, is_training, rate=dropout_rate, noise_shape=noise_shape)
    return mtf.einsum([weights, v], q.shape - key_dim + value_dim)


def _logits_shape(q: Shape, k: Shape, key_dim: Dimension) -> Shape:
    """What both have (batch, heads), then what only q has (length), then memory_length.

    This is the order in which a batched matrix product comes out.
    """
    both = [d for d in q if d in k and d != key_dim]
    return Shape(both + [d for d in q if d not in k] + [d for d in k if d not in q])
