"""Hugging Face's config.json to an architecture, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mtf_models.checkpoint import single_stack_config
from mtf_models.checkpoint.architecture import Architecture
from mtf_models.checkpoint.hugging_face_fields import (
    ACTIVATIONS,
    ARCHITECTURES,
    FAMILIES,
    FIXED,
    GATED_BY_DEFAULT,
    MAPPED,
    MAPPED_OF_SWITCH,
    WITHOUT_EFFECT,
)
from mtf_models.checkpoint.single_stack import SingleStack
from mtf_models.errors import CheckpointError

CONFIG_FILE = "config.json"
_SWITCH = "switch_transformers"
_WHOLE = (
    "num_decoder_layers",
    "relative_attention_num_buckets",
    "num_experts",
    "expert_capacity",
)
_NUMBERS = (
    "dropout_rate",
    "layer_norm_epsilon",
    "router_jitter_noise",
    "router_aux_loss_coef",
    "router_z_loss_coef",
)
_PROJECTION = "feed_forward_proj, dense_act_fn, is_gated_act"


def read_config(folder: Path) -> dict[str, Any]:
    """The fields of a folder's config.json.

    Raises:
        CheckpointError: if it cannot be read.
    """
    file = folder / CONFIG_FILE
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{file} cannot be read: {error}. Copy it again from where it came from."
        ) from error
    if not isinstance(fields, dict):
        raise CheckpointError(f"{file} holds no object of fields, but {type(fields).__name__}.")
    return fields


def architecture_of(fields: Mapping[str, Any], has_classifier: bool) -> Architecture | SingleStack:
    """What a config.json says of a model.

    Args:
        fields: of the config.json.
        has_classifier: whether the tensors hold a matrix for logits that is not the embedding.

    Raises:
        CheckpointError: listing every field that models here cannot have, or that is not known.
    """
    family = fields.get("model_type")
    if family in single_stack_config.FAMILIES:
        stack, faults = single_stack_config.read_stack(fields)
        if stack is not None and has_classifier and stack.tied:
            faults.append("tie_word_embeddings: the logits have a matrix of their own")
        _raise(faults)
        return stack
    if family not in FAMILIES:
        raise CheckpointError(_other_family(family))
    faults = list(_faults(fields, family))
    said = {**FAMILIES[family], **{k: v for k, v in fields.items() if v is not None}}
    activation, gated = _activation(said, family)
    if activation not in ACTIVATIONS:
        faults.append(f"{_PROJECTION}: activation {activation!r} (known: {', '.join(ACTIVATIONS)})")
    faults += _tying_faults(said, family, has_classifier)
    if family == _SWITCH and not faults:
        faults += _expert_faults(said, gated)
    _raise(faults)
    return Architecture(
        model_type=family,
        vocab_size=said["vocab_size"],
        d_model=said["d_model"],
        d_kv=said["d_kv"],
        d_ff=said["d_ff"],
        num_heads=said["num_heads"],
        num_layers=said["num_layers"],
        num_decoder_layers=_decoder_layers(said),
        num_buckets=said.get("relative_attention_num_buckets", 32),
        bias_in_every_layer=family == "umt5",
        activation=ACTIVATIONS[activation],
        gated=gated,
        tied=not has_classifier and _scaled(said, family),
        dropout_rate=said.get("dropout_rate", 0.1),
        epsilon=said.get("layer_norm_epsilon", 1e-6),
        legacy_norms=said.get("mtf_legacy_norm_names", False),
        **(_experts(said) if family == _SWITCH else {}),
    )


def _raise(faults: Sequence[str]) -> None:
    if faults:
        lines = "".join(f"\n  {fault}" for fault in faults)
        raise CheckpointError(
            f"{CONFIG_FILE} asks for what models here cannot be, and nothing was read:{lines}\n"
            "Convert a model without these."
        )


def fields_of(architecture: Architecture | SingleStack, dtype: str) -> dict[str, Any]:
    """The config.json of an architecture.

    Args:
        architecture: what is described.
        dtype: of the tensors, as transformers calls it.
    """
    if isinstance(architecture, SingleStack):
        return single_stack_config.stack_fields(architecture, dtype)
    a = architecture
    act = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == a.activation)
    projection = "gelu" if act == "gelu_new" and a.gated else act
    fields = {
        "architectures": [ARCHITECTURES[a.model_type][0]],
        "d_ff": a.d_ff,
        "d_kv": a.d_kv,
        "d_model": a.d_model,
        "decoder_start_token_id": 0,
        "dense_act_fn": act,
        "dropout_rate": a.dropout_rate,
        "dtype": dtype,
        "eos_token_id": 1,
        "feed_forward_proj": f"gated-{projection}" if a.gated else projection,
        "is_encoder_decoder": True,
        "is_gated_act": a.gated,
        "layer_norm_epsilon": a.epsilon,
        "model_type": a.model_type,
        "num_decoder_layers": a.num_decoder_layers,
        "num_heads": a.num_heads,
        "num_layers": a.num_layers,
        "pad_token_id": 0,
        "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": a.num_buckets,
        "tie_word_embeddings": a.tied,
        "use_cache": True,
        "vocab_size": a.vocab_size,
    }
    if a.legacy_norms:
        fields["mtf_legacy_norm_names"] = True
    if a.num_experts:
        fields |= _expert_fields(a)
    return dict(sorted(fields.items()))


def _other_family(family: Any) -> str:
    known = ", ".join((*FAMILIES, *single_stack_config.FAMILIES))
    return (
        f"{CONFIG_FILE} has model_type {family!r}, and the families that can be read are {known}. "
        "Give a folder of one of those."
    )


def _faults(fields: Mapping[str, Any], family: str) -> Iterator[str]:
    """What cannot be had whatever the rest says."""
    mapped = {*MAPPED, *(MAPPED_OF_SWITCH if family == _SWITCH else ())}
    for name, value in fields.items():
        if name in FIXED and value not in FIXED[name]:
            only = " or ".join(json.dumps(known) for known in FIXED[name])
            yield f"{name} = {json.dumps(value)} (only {only})"
        elif name not in mapped and name not in FIXED and name not in WITHOUT_EFFECT:
            yield f"{name} = {json.dumps(value)} (not known here)"
    classes = fields.get("architectures") or ()
    for name in classes:
        if name not in ARCHITECTURES[family]:
            yield f"architectures: {name} (only {' or '.join(ARCHITECTURES[family])})"
    for name in (*FAMILIES[family], *_WHOLE):
        value = fields.get(name)
        if value is not None and (type(value) is not int or value < 1):
            yield f"{name} = {json.dumps(value)} (only a whole number from 1)"
    for name in _NUMBERS:
        value = fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            yield f"{name} = {json.dumps(value)} (only a number)"


def _activation(said: Mapping[str, Any], family: str) -> tuple[str, bool]:
    """Their name of the activation, and whether it gates; the two single fields come first."""
    if family == _SWITCH:
        return said.get("dense_act_fn", "relu"), said.get("is_gated_act", False)
    default = "gated-gelu" if family in GATED_BY_DEFAULT else "relu"
    projection = str(said.get("feed_forward_proj", default))
    gate, _, name = projection.rpartition("-")
    if projection == "gated-gelu":
        name = "gelu_new"
    return said.get("dense_act_fn", name), bool(said.get("is_gated_act", gate == "gated"))


def _scaled(said: Mapping[str, Any], family: str) -> bool:
    """Whether transformers scales the decoder's output by d_model^-½."""
    tied = said.get("tie_word_embeddings", True) is not False
    if family == "mt5":
        # transformers 4 scaled tied ones, and 5 scales none.
        return tied and _is_of_transformers_4(said)
    return tied if family == _SWITCH else bool(said.get("scale_decoder_outputs", tied))


def _is_of_transformers_4(said: Mapping[str, Any]) -> bool:
    return str(said.get("transformers_version", "5")).startswith(("2.", "3.", "4."))


def _tying_faults(said: Mapping[str, Any], family: str, has_classifier: bool) -> Iterator[str]:
    if has_classifier and _scaled(said, family):
        yield (
            "tie_word_embeddings, scale_decoder_outputs: the decoder's output is scaled, and "
            "lm_head.weight is a matrix of its own (models here scale only where they are tied)"
        )


def _decoder_layers(said: Mapping[str, Any]) -> int:
    return said.get("num_decoder_layers", said["num_layers"])


def _experts(said: Mapping[str, Any]) -> dict[str, Any]:
    steps = _steps(said)
    return {
        "num_experts": said.get("num_experts", 8),
        "expert_capacity": said.get("expert_capacity", 64),
        "encoder_step": steps["encoder"][1],
        "decoder_step": steps["decoder"][1],
        "router_jitter": said.get("router_jitter_noise", 0.01),
        "router_loss": said.get("router_aux_loss_coef", 0.001),
        "router_z_loss": said.get("router_z_loss_coef", 0.001),
    }


def _steps(said: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Stack to its blocks and every which of them is sparse; a step given outright comes first."""
    found = {}
    for side, blocks in (("encoder", said["num_layers"]), ("decoder", _decoder_layers(said))):
        sparse = said.get(f"num_sparse_{side}_layers", 3)
        step = said.get(f"{side}_sparse_step", blocks // sparse if sparse else blocks)
        found[side] = blocks, step
    return found


def _expert_faults(said: Mapping[str, Any], gated: bool) -> Iterator[str]:
    if gated:
        yield f"{_PROJECTION}: gated (only ungated layers have experts)"
    for side, (blocks, step) in _steps(said).items():
        if step and blocks % step:
            yield (
                f"{side}_sparse_step = {step} (only a divisor of the {blocks} blocks: here the "
                "blocks of a stack are alike)"
            )


def _expert_fields(a: Architecture) -> dict[str, Any]:
    fields = {
        "num_experts": a.num_experts,
        "expert_capacity": a.expert_capacity,
        "router_jitter_noise": a.router_jitter,
        "router_aux_loss_coef": a.router_loss,
        "router_z_loss_coef": a.router_z_loss,
    }
    for stack in a.stacks:
        fields[f"{stack.name}_sparse_step"] = stack.sparse_step
        sparse = sum(stack.is_sparse(block) for block in range(stack.blocks))
        fields[f"num_sparse_{stack.name}_layers"] = sparse
    return fields
