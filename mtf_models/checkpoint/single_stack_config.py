"""The config.json of GPT-2 and BERT to their architecture, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mtf_models.checkpoint.hugging_face_fields import ACTIVATIONS, WITHOUT_EFFECT
from mtf_models.checkpoint.single_stack import BERT, GPT2, SingleStack

_ACTIVATIONS = {**ACTIVATIONS, "gelu": "gelu_exact"}


@dataclass(frozen=True)
class _Family:
    """What a family calls the attributes of `SingleStack`.

    Attributes:
        classes: whose tensors these are.
        names: attribute -> field, and its value where a config.json does not say it.
        fixed: fields that models here can have in these values only.
        without_effect: fields that change nothing here, besides those of all families.
    """

    classes: tuple[str, ...]
    names: Mapping[str, tuple[str, Any]]
    fixed: Mapping[str, tuple[Any, ...]]
    without_effect: frozenset[str]


FAMILIES = {
    GPT2: _Family(
        classes=("GPT2LMHeadModel",),
        names={
            "vocab_size": ("vocab_size", 50257),
            "max_length": ("n_positions", 1024),
            "d_model": ("n_embd", 768),
            "num_layers": ("n_layer", 12),
            "num_heads": ("n_head", 12),
            "d_ff": ("n_inner", None),
            "activation": ("activation_function", "gelu_new"),
            "epsilon": ("layer_norm_epsilon", 1e-5),
            "dropout_rate": ("resid_pdrop", 0.1),
            "attention_dropout_rate": ("attn_pdrop", 0.1),
            "tied": ("tie_word_embeddings", True),
            "end": ("eos_token_id", 50256),
        },
        fixed={
            "add_cross_attention": (False,),
            "is_decoder": (False, True),
            "is_encoder_decoder": (False,),
            "reorder_and_upcast_attn": (False,),
            "scale_attn_by_inverse_layer_idx": (False,),
            "scale_attn_weights": (True,),
        },
        without_effect=frozenset(
            (
                *("n_ctx", "initializer_range", "pad_token_id", "summary_activation"),
                *("summary_first_dropout", "summary_proj_to_labels", "summary_type"),
                "summary_use_proj",
            )
        ),
    ),
    BERT: _Family(
        classes=("BertForMaskedLM", "BertForPreTraining"),
        names={
            "vocab_size": ("vocab_size", 30522),
            "max_length": ("max_position_embeddings", 512),
            "type_vocab_size": ("type_vocab_size", 2),
            "d_model": ("hidden_size", 768),
            "num_layers": ("num_hidden_layers", 12),
            "num_heads": ("num_attention_heads", 12),
            "d_ff": ("intermediate_size", 3072),
            "activation": ("hidden_act", "gelu"),
            "epsilon": ("layer_norm_eps", 1e-12),
            "dropout_rate": ("hidden_dropout_prob", 0.1),
            "attention_dropout_rate": ("attention_probs_dropout_prob", 0.1),
        },
        fixed={
            "add_cross_attention": (False,),
            "is_decoder": (False,),
            "is_encoder_decoder": (False,),
            "position_embedding_type": ("absolute",),
            "tie_word_embeddings": (True,),
        },
        without_effect=frozenset(
            (
                *("pad_token_id", "eos_token_id", "initializer_range", "layer_norm_type"),
                *("directionality", "pooler_fc_size", "pooler_num_attention_heads"),
                *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"),
            )
        ),
    ),
}
"""model_type -> what its config.json says."""

_WHOLE = ("vocab_size", "max_length", "type_vocab_size", "d_model", "num_layers", "num_heads")
_EMBEDDING_DROPOUT = "embd_pdrop"


def read_stack(fields: Mapping[str, Any]) -> tuple[SingleStack | None, list[str]]:
    """What a config.json says of a model, and what of it models here cannot have.

    Args:
        fields: of the config.json, whose model_type is one of `FAMILIES`.

    Returns:
        The architecture, None where there are faults; and these, a line each.
    """
    family = FAMILIES[fields["model_type"]]
    said = {
        attribute: default if fields.get(name) is None else fields[name]
        for attribute, (name, default) in family.names.items()
    }
    faults = [*_field_faults(fields, family), *_value_faults(said, family)]
    if faults:
        return None, faults
    said["activation"] = _ACTIVATIONS[said["activation"]]
    said["d_ff"] = said["d_ff"] or 4 * said["d_model"]
    if "end" in said:
        ends = said["end"] if isinstance(said["end"], list) else [said["end"]]
        # Small models keep GPT-2's id, which they do not have.
        said["end"] = ends[0] if ends[0] < said["vocab_size"] else SingleStack.end
    return SingleStack(model_type=fields["model_type"], **said), []


def stack_fields(stack: SingleStack, dtype: str) -> dict[str, Any]:
    """The config.json of an architecture.

    Args:
        stack: what is described.
        dtype: of the tensors, as transformers calls it.
    """
    family = FAMILIES[stack.model_type]
    fields = {name: getattr(stack, attribute) for attribute, (name, _) in family.names.items()}
    act = next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == stack.activation)
    fields[family.names["activation"][0]] = act
    if stack.model_type == GPT2:
        fields |= {_EMBEDDING_DROPOUT: stack.dropout_rate, "bos_token_id": 0}
    fields |= {"architectures": [family.classes[0]], "model_type": stack.model_type}
    return dict(sorted({**fields, "dtype": dtype, "pad_token_id": 0}.items()))


def _field_faults(fields: Mapping[str, Any], family: _Family) -> Iterator[str]:
    known = {"model_type", "architectures", _EMBEDDING_DROPOUT}
    known |= {name for name, _ in family.names.values()}
    for name, value in fields.items():
        if name in family.fixed and value not in family.fixed[name]:
            only = " or ".join(json.dumps(right) for right in family.fixed[name])
            yield f"{name} = {json.dumps(value)} (only {only})"
        elif name not in {*known, *family.fixed, *family.without_effect, *WITHOUT_EFFECT}:
            yield f"{name} = {json.dumps(value)} (not known here)"
    for name in fields.get("architectures") or ():
        if name not in family.classes:
            yield f"architectures: {name} (only {' or '.join(family.classes)})"
    dropout = fields.get(_EMBEDDING_DROPOUT)
    if dropout is not None and dropout != fields.get("resid_pdrop", 0.1):
        yield (
            f"{_EMBEDDING_DROPOUT} = {dropout}, and resid_pdrop = {fields.get('resid_pdrop', 0.1)} "
            "(only one rate for both)"
        )


def _value_faults(said: Mapping[str, Any], family: _Family) -> Iterator[str]:
    for attribute in _WHOLE:
        value = said.get(attribute, 1)
        if type(value) is not int or value < 1:
            yield f"{family.names[attribute][0]} = {json.dumps(value)} (only a whole number from 1)"
    for attribute in ("epsilon", "dropout_rate", "attention_dropout_rate"):
        value = said[attribute]
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{family.names[attribute][0]} = {json.dumps(value)} (only a number)"
    if said["activation"] not in _ACTIVATIONS:
        name = family.names["activation"][0]
        yield f"{name} = {json.dumps(said['activation'])} (known: {', '.join(_ACTIVATIONS)})"
    sizes = said["d_model"], said["num_heads"]
    if all(type(size) is int and size > 0 for size in sizes) and sizes[0] % sizes[1]:
        names = [family.names[attribute][0] for attribute in ("num_heads", "d_model")]
        yield f"{names[0]} = {sizes[1]} (only a divisor of {names[1]}, {sizes[0]})"
