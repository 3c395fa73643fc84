"""How an attention layer turns queries, keys and values into its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError
from mtf_models.layers.attention import attention, hybrid_attention
from mtf_models.mesh import Dimension, Shape, Tensor, scopes
from mtf_models.mesh.initializers import constant
from mtf_models.transformer.attention_blocks import in_blocks, rows_at_once
from mtf_models.transformer.context import Context
from mtf_models.transformer.projections import AttentionProjections

Bias = Callable[[Context, Tensor], Tensor | None]
"""Takes the context of some queries and the queries, gives what is added to their logits."""


def attend(
    layer: Any,
    context: Context,
    maps: AttentionProjections,
    qkv: tuple[Tensor, Tensor, Tensor],
    memory_length: Dimension,
    bias: Bias,
) -> Tensor:
    """Attention as the options of a layer say; its z-loss goes to the context.

    Args:
        layer: has the options of `SelfAttention`.
        context: of the call.
        maps: of the layer.
        qkv: [batch, length, heads, d_kv], and two of [batch, memory_length, heads, d_kv].
        memory_length: the positions that are attended to.
        bias: what is added to the logits.

    Returns:
        [batch, length, heads, d_kv].
    """
    q, k, v = qkv
    options = attention_options(layer, context)
    dims = memory_length, maps.key_dim, maps.key_dim

    def see(rows: Context, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> list[Tensor]:
        squares: list[Tensor] = []
        if layer.z_loss_coeff is not None and context.is_training:
            options["observe"] = lambda logits: squares.append(
                mtf.square(mtf.reduce_logsumexp(mtf.to_float(logits), memory_length))
            )
        added = bias(rows, q)
        if layer.attention_func == "hybrid":
            doubly = _doubly_coefficient(layer, context)
            y = hybrid_attention(q, k, v, rows.length_dim, *dims, doubly, added, **options)
        else:
            y = attention(q, k, v, *dims, added, **options)
        return [y, *squares]

    size = rows_at_once(context.mesh, context.length_dim, memory_length)
    if size is None or layer.attention_func == "hybrid":  # which needs all queries
        y, *squares = see(context, q, k, v, **options)
    else:
        y, *squares = in_blocks(see, context, size, (q, k, v), maps.key_dim, options)
    for square in squares:
        context.add_loss("attention_z_loss", _z_loss(layer, context, square))
    return y


def attention_options(layer: Any, context: Context) -> dict[str, Any]:
    """Arguments of `layers.attention.attention` that a layer's options say.

    Args:
        layer: has the options of `SelfAttention`.
        context: of the call.
    """
    options = dict(layer.attention_kwargs)
    alike = options.pop("dropout_broadcast_dims", [context.length_dim.name])
    return {
        **options,
        "is_training": context.is_training,
        "dropout_rate": layer.dropout_rate,
        "dropout_broadcast_dims": list(alike),
    }


def _doubly_coefficient(layer: Any, context: Context) -> Tensor:
    """A learned scalar.

    Raises:
        ConfigError: in a stack where no position may depend on later ones.
    """
    if context.autoregressive:
        raise ConfigError(
            f'{type(layer).__name__}.attention_func is "hybrid" in a stack that is autoregressive. '
            "Its weights are normalised over all queries, so that a position would see later ones: "
            "bind it for the encoder only (encoder/SelfAttention.attention_func)."
        )
    return mtf.get_variable(
        context.mesh, "doubly_coeff", Shape(), context.variable_dtype, constant(0.5)
    )


def _z_loss(layer: Any, context: Context, squares: Tensor) -> Tensor:
    """The mean squared log partition function of real positions, weighted (Zoph et al. 2022).

    Those of the members of an ensemble are added up, so that each learns as if alone.
    """
    members = Shape(scopes.stacked_dims())
    real = context.nonpadding
    if real is None:
        mean = mtf.reduce_mean(squares, output_shape=members)
    else:
        real = mtf.to_float(real)
        heads = (squares.shape - real.shape - members).size
        total = mtf.multiply(squares, real, output_shape=squares.shape)
        count = mtf.reduce_sum(real, output_shape=[d for d in members if d in real.shape])
        total = mtf.reduce_sum(total, output_shape=members)
        mean = total / mtf.maximum(count * float(heads), 1.0)
    return mtf.reduce_sum(mean) * layer.z_loss_coeff
