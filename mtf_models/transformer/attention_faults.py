"""Options of attention layers that are unknown, or contradict each other."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from mtf_models.errors import ConfigError, did_you_mean
from mtf_models.layers.attention import attention
from mtf_models.transformer.context import Context

FUNCTIONS = (None, "hybrid")
RELATIVE_ATTENTION_TYPES = (None, "bias", "bias_shared", "contextual", "alibi", "rotary")
KWARGS = ("dropout_broadcast_dims", "extra_logit", "float32_logits", "logits_soft_cap")
LOGITS_DIMS = ("batch", "length", "memory_length", "heads", "query_heads")
assert set(KWARGS) <= set(inspect.signature(attention).parameters)


def check_attention(layer: Any) -> None:
    """Refuses what a `SelfAttention` cannot do.

    Raises:
        ConfigError: with all faults.
    """
    faults = list(_faults(layer))
    if faults:
        raise ConfigError("; ".join(faults) + ".")


def check_types(layer: Any, kind: str | None, allowed: Sequence[str | None]) -> None:
    """Refuses a relative_attention_type that a layer does not have.

    Raises:
        ConfigError: if it is none of `allowed`.
    """
    if kind not in allowed:
        raise ConfigError(f"{_not_one_of(layer, 'relative_attention_type', kind, allowed)}.")


def check_without(layer: Any, *options: str) -> None:
    """Refuses options of `SelfAttention` that a layer derived from it does nothing with.

    Args:
        layer: has them, perhaps by bindings of `SelfAttention`.
        *options: their names.

    Raises:
        ConfigError: listing all that are set.
    """
    found = [f"{name} = {getattr(layer, name)!r}" for name in options if getattr(layer, name)]
    if found:
        raise ConfigError(
            f"{type(layer).__name__} has {', '.join(found)}, which it does nothing with. What is "
            "bound for SelfAttention applies to it too: give it to single layers in "
            'make_layer_stack.layers instead, as in (@SelfAttention, {"z_loss_coeff": 0.1}).'
        )


def check_compares(layer: Any) -> None:
    """Refuses options for the products of queries and keys in a layer that does without them.

    Raises:
        ConfigError: if the products are to be capped.
    """
    if layer.attention_kwargs.get("logits_soft_cap") is not None:
        raise ConfigError(
            f"{type(layer).__name__}.attention_kwargs has logits_soft_cap, and this layer has "
            "other logits than products of queries and keys: leave it out, or take SelfAttention."
        )


def require_encoder(layer: Any, context: Context) -> None:
    """Refuses a layer that attends to an encoder in a stack that has none.

    Raises:
        ConfigError: if there is no encoder output, or it has another width than the layer.
    """
    name = type(layer).__name__
    if context.encoder_output is None:
        raise ConfigError(
            f"{name} attends to an encoder, and this stack has none: take it out of "
            "make_layer_stack.layers, or put it into those of a decoder "
            "(decoder/make_layer_stack.layers)."
        )
    if context.d_model not in context.encoder_output.shape:
        width = context.encoder_output.shape.get_dim_by_name("d_model").size
        raise ConfigError(
            f"{name} has d_model {context.d_model.size} and the encoder's output {width}: give "
            "encoder/Unitransformer.d_model and decoder/Unitransformer.d_model one value."
        )


def _faults(layer: Any) -> Iterator[str]:
    name = type(layer).__name__
    if layer.relative_attention_type not in RELATIVE_ATTENTION_TYPES:
        yield _not_one_of(
            layer,
            "relative_attention_type",
            layer.relative_attention_type,
            RELATIVE_ATTENTION_TYPES,
        )
    if layer.attention_func not in FUNCTIONS:
        yield _not_one_of(layer, "attention_func", layer.attention_func, FUNCTIONS)
    for key in layer.attention_kwargs:
        if key not in KWARGS:
            yield f"{name}.attention_kwargs has {key!r}{did_you_mean(key, KWARGS)}"
    for dim in layer.attention_kwargs.get("dropout_broadcast_dims", ()):
        if dim not in LOGITS_DIMS:
            hint = did_you_mean(str(dim), LOGITS_DIMS)
            yield f"{name}.attention_kwargs has {dim!r} in dropout_broadcast_dims{hint}"
    cap = layer.attention_kwargs.get("logits_soft_cap")
    if cap is not None and cap <= 0:
        yield f"{name}.attention_kwargs has logits_soft_cap = {cap}: give a number above 0, or None"
    if layer.relative_attention_type == "rotary" and layer.key_value_size % 2:
        yield (
            f"{name}.relative_attention_type is 'rotary', which turns the two halves of a head, "
            f"and key_value_size is {layer.key_value_size}: make it even"
        )
    if layer.keep_query_heads_dims and layer.combine_dims:
        yield (
            f"{name}.keep_query_heads_dims is set and so is combine_dims: set combine_dims = False"
        )
    if layer.keep_query_heads_dims and layer.use_bias:
        yield (
            f"{name}.keep_query_heads_dims is set and so is use_bias, and one bias cannot be each "
            "head's: set use_bias = False"
        )
    groups = layer.num_memory_heads
    if groups and layer.num_heads % groups:
        yield (
            f"{name}: {layer.num_heads} query heads cannot share {groups} memory heads evenly; "
            "take a num_memory_heads that divides num_heads"
        )


def _not_one_of(layer: Any, option: str, found: Any, allowed: Sequence[Any]) -> str:
    known = ", ".join('"' + x + '"' if x else "None" for x in allowed)
    return f"{type(layer).__name__}.{option} is {found!r}; it can be {known}"
