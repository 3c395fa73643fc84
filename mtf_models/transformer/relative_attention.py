"""What attention adds to its logits for the distance between two positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.layers.dense import dense
from mtf_models.mesh import Dimension, Shape, Tensor, scopes
from mtf_models.transformer.context import Context
from mtf_models.transformer.positions import relative_position_bucket
from mtf_models.transformer.visibility import visibility_bias

LEARNED = ("bias", "bias_shared")
"""A learned bias for each bucket of distances and head: of each layer, or of a whole stack."""


def distance(context: Context) -> Tensor:
    """[length, memory_length] int32, memory position minus query position."""
    return mtf.sub(
        context.memory_position,
        context.position,
        output_shape=Shape([context.length_dim, context.memory_length_dim]),
    )


def plus(bias: Tensor, mask: Tensor | None) -> Tensor:
    """A bias of heads and a mask without heads; there may be none."""
    if mask is None:
        return bias
    extra = [d for d in mask.shape if d not in bias.shape]
    return mtf.add(bias, mask, output_shape=Shape(extra) + bias.shape)


def shared_scope(context: Context, kind: str, name: str, heads: Sequence[Dimension]) -> str:
    """The full name of the variable `name`: the running layer's, or the first such of the stack."""
    here = scopes.full_name(name)
    if kind != "bias_shared":
        return here
    return context.shared_scopes.setdefault((name, tuple(heads)), here)


def learned_bias(
    context: Context,
    variable: str,
    heads: Sequence[Dimension],
    num_buckets: int,
    bucket: Callable[[], Tensor],
) -> Tensor:
    """[heads, ...] in float32, a number for each bucket (Raffel et al. 2020, section 2.1).

    Args:
        context: of the call.
        variable: the full name of the table.
        heads: of the table.
        num_buckets: of the table.
        bucket: gives the bucket of each pair of positions, int32, all in range.
    """
    buckets = Dimension("buckets", num_buckets)
    with scopes.entered(""):
        shape = Shape([*heads, buckets])
        table = mtf.get_variable(context.mesh, variable, shape, context.variable_dtype)
    at = bucket()
    shape = table.shape - buckets + at.shape.dims
    return mtf.to_float(mtf.gather(table, at, buckets, shape, in_range=True))


def position_bucket(context: Context, num_buckets: int) -> Tensor:
    """[length, memory_length] int32, the bucket of each distance."""
    return relative_position_bucket(
        distance(context), not context.fully_autoregressive, num_buckets
    )


def contextual_bias(
    context: Context,
    q: Tensor,
    heads: Sequence[Dimension],
    key_dim: Dimension,
    num_buckets: int,
) -> Tensor:
    """[..., heads, length, memory_length]: the query times a learned key of each bucket.

    The first of the two terms of Shaw et al. 2018, section 3.2, with buckets for clipped distances.

    Args:
        context: of the call.
        q: [..., length, heads, d_kv].
        heads: the heads of q.
        key_dim: the width of q.
        num_buckets: see `relative_position_bucket`.
    """
    buckets = Dimension("buckets", num_buckets)
    by_bucket = dense(
        q,
        [buckets],
        reduced_dims=[key_dim],
        expert_dims=heads,
        use_bias=False,
        variable_dtype=context.variable_dtype,
        name="relative_attention_ak",
    )
    hot = context.once(
        ("position buckets", num_buckets, q.dtype),
        lambda: mtf.one_hot(position_bucket(context, num_buckets), buckets, dtype=q.dtype),
    )
    length = context.length_dim
    shape = by_bucket.shape - buckets - length + [length, context.memory_length_dim]
    return mtf.to_float(mtf.einsum([by_bucket, hot], shape))


def self_attention_bias(layer: Any, context: Context, heads: Sequence[Dimension]) -> Tensor | None:
    """Masks of self-attention, with a learned bias if the layer asks for one.

    Args:
        layer: says with its relative_attention_type and relative_attention_num_buckets.
        context: of the queries.
        heads: of the logits.
    """
    kind, number = layer.relative_attention_type, layer.relative_attention_num_buckets
    mask = context.once("visibility", lambda: visibility_bias(context))
    if kind is None:
        return mask
    name = shared_scope(context, kind, "relative_attention_bias", heads)

    def compute() -> Tensor:
        bias = learned_bias(context, name, heads, number, lambda: position_bucket(context, number))
        return plus(bias, mask)

    return context.once(name, compute)
