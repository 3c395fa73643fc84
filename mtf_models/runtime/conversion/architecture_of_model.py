"""What a model of ours is in Hugging Face's words, or why it is nothing there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from mtf_models.checkpoint.architecture import Architecture, Stack
from mtf_models.checkpoint.hugging_face_fields import ACTIVATIONS
from mtf_models.checkpoint.single_stack import BERT, GPT2, SingleStack
from mtf_models.config import Config, parse_text
from mtf_models.config.names import resolve
from mtf_models.configurable import registered
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.model.config_of_architecture import config_of
from mtf_models.runtime.model.model import Model
from mtf_models.transformer import sublayers
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.bitransformer import Bitransformer
from mtf_models.transformer.feed_forward import DenseReluDense
from mtf_models.transformer.moe.layer import MoE1D
from mtf_models.transformer.unitransformer import Unitransformer

Layer = TypeVar("Layer")

# Configurables that have no part in what a model computes from its inputs.
_OF_RUNS = (
    "run.",
    "get_variable_dtype.",
    "VarianceScalingInitializer.",
    "mesh_eval_dataset_fn.",
    "mesh_train_dataset_fn.",
    "get_vocabulary.",
)
# Parameters that act in training only, or say how the same numbers are laid out.
_HARMLESS = (
    "dropout_rate",
    "label_smoothing",
    "z_loss",
    "loss_denominator",
    "recompute_grads",
    "max_length",
    "vocab_divisor",
    "pad_vocab_multiple",
)
# What of a layer of experts is not harmless; which tokens find a place is told at the end.
_OF_EXPERTS = ("num_experts", "moe_gating", "hidden_size", "activation", "output_dim")
_MT5_ROWS = 250112


def architecture_of(model: Model) -> Architecture | SingleStack:
    """The architecture of a model.

    What it finds is turned into a config again, and every parameter that the two configs use is
    compared: what Hugging Face's config cannot say is thus found whatever it is.

    Args:
        model: built from its config; nothing is allocated.

    Raises:
        ConfigError: listing what has no counterpart there.
    """
    found = _read(model)
    left = [f"{d.key} = {d.ours}" for d in _differences(model.config, found)]
    if left:
        lines = "".join(f"\n  {line}" for line in left)
        raise ConfigError(
            f"The model has parameters that Hugging Face's {found.model_type} cannot have, and "
            f"nothing was written:{lines}\nIt stays in this format."
        )
    return found


def _read(model: Model) -> Architecture | SingleStack:
    network = model.network
    if type(network) is Unitransformer:
        return _read_stack(model)
    if not isinstance(network, Bitransformer):
        raise ConfigError(
            f"The model is a {type(network).__name__}: of Hugging Face's families only "
            "encoder-decoders (T5, mT5, umT5, ByT5, Flan-T5), language models like GPT-2 and "
            "masked ones like BERT can be written."
        )
    encoder, decoder = network.encoder, network.decoder
    sizes = encoder.input_vocab_size, decoder.output_vocab_size
    if sizes[0] != sizes[1]:
        raise ConfigError(
            f"Inputs have {sizes[0]} ids and targets {sizes[1]}: Hugging Face's encoder-decoders "
            "have one vocabulary."
        )
    attention = _first(encoder, SelfAttention)
    feed_forward = _feed_forward(network)
    activation, gated = _activation(feed_forward)
    in_every_layer = attention.relative_attention_type == "bias"
    rows = encoder.vocab(sizes[0]).classes
    experts = _experts(model)
    return Architecture(
        model_type=_family(in_every_layer, rows == _MT5_ROWS and not decoder.tied, bool(experts)),
        vocab_size=rows,
        d_model=encoder.d_model.size,
        d_kv=attention.key_value_size,
        d_ff=feed_forward.hidden_size,
        num_heads=attention.num_heads,
        num_layers=_blocks(encoder),
        num_decoder_layers=_blocks(decoder),
        num_buckets=attention.relative_attention_num_buckets,
        bias_in_every_layer=in_every_layer,
        activation=activation,
        gated=gated,
        tied=decoder.tied,
        dropout_rate=_query(model, "sublayer_dropout.dropout_rate", 0.0),
        epsilon=_query(model, "sublayer_rms_norm.epsilon", 1e-6),
        legacy_norms=_has_legacy_norms(encoder),
        **experts,
    )


def _read_stack(model: Model) -> SingleStack:
    """What the parameters are there, be the rest as it may: it is compared afterwards."""
    network = model.network
    attention, feed_forward = _first(network, SelfAttention), _first(network, DenseReluDense)
    stop = "Unitransformer.sample_autoregressive.stop_at_token"
    return SingleStack(
        model_type=GPT2 if network.autoregressive else BERT,
        vocab_size=network.vocab(network.output_vocab_size).classes,
        d_model=network.d_model.size,
        d_ff=feed_forward.hidden_size,
        num_heads=attention.num_heads,
        num_layers=_blocks(network),
        max_length=network.max_length,
        activation=feed_forward.activation,
        epsilon=_query(model, "sublayer_true_layer_norm.epsilon", 1e-6),
        dropout_rate=_query(model, "sublayer_dropout.dropout_rate", 0.0),
        attention_dropout_rate=attention.dropout_rate,
        tied=network.tied,
        type_vocab_size=network.type_vocab_size or 0,
        end=int(_query(model, stop, SingleStack.end)),
    )


def _differences(ours: Config, found: Architecture | SingleStack) -> list[Any]:
    """The parameters in use that have another value in a model of the architecture."""
    theirs = config_of(found)
    model_from_config(theirs, Mesh())
    used = [parse_text(config.operative_text()) for config in (ours, theirs)]
    different = used[0].differences(used[1])
    legacy_norms = isinstance(found, Architecture) and found.legacy_norms
    return [d for d in different if not _is_harmless(d.key, legacy_norms)]


def _is_harmless(key: str, legacy_norms: bool) -> bool:
    scope, _, rest = key.rpartition("/")
    if resolve(rest.rpartition(".")[0]).selector not in registered():
        return True  # Of another package, which has no layers.
    if legacy_norms and rest.startswith("LayerStack.sublayers_"):
        return True  # They are not looked at.
    if rest.startswith("MoE1D."):
        return rest.rpartition(".")[2] not in _OF_EXPERTS
    if rest.startswith(_OF_RUNS) or rest.rpartition(".")[2] in _HARMLESS:
        return True
    # An encoder has no logits.
    return scope == "encoder" and rest == "Unitransformer.shared_embedding_and_softmax_weights"


def _first(stack: Unitransformer, kind: type[Layer]) -> Layer:
    found = [layer for layer in stack.layer_stack.layers if type(layer) is kind]
    if not found:
        kinds = ", ".join(dict.fromkeys(type(layer).__name__ for layer in stack.layer_stack.layers))
        raise ConfigError(
            f"The {stack.name} has no {kind.__name__} but {kinds}: Hugging Face's families that "
            "can be written have."
        )
    return found[0]


def _feed_forward(network: Bitransformer) -> DenseReluDense | MoE1D:
    """Any of the feed-forward layers, which are alike; one that is no mixture if there is one."""
    layers = [s for stack in (network.encoder, network.decoder) for s in stack.layer_stack.layers]
    for kind in (DenseReluDense, MoE1D):
        found = [layer for layer in layers if type(layer) is kind]
        if found:
            return found[0]
    return _first(network.encoder, DenseReluDense)


def _activation(layer: DenseReluDense | MoE1D) -> tuple[str, bool]:
    """The activation, and whether it gates a second projection."""
    gated = isinstance(layer.activation, Sequence) and not isinstance(layer.activation, str)
    activation = layer.activation[0] if gated else layer.activation
    if activation not in ACTIVATIONS.values():
        raise ConfigError(
            f"DenseReluDense.activation is {layer.activation!r}; Hugging Face's families have "
            f"{', '.join(dict.fromkeys(ACTIVATIONS.values()))}, alone or gating a linear one."
        )
    return activation, gated


def _family(bias_in_every_layer: bool, has_mt5s_vocabulary: bool, has_experts: bool) -> str:
    if has_experts:
        return "switch_transformers"
    if bias_in_every_layer:
        return "umt5"
    return "mt5" if has_mt5s_vocabulary else "t5"


def _experts(model: Model) -> dict[str, Any]:
    """Of layers of experts; empty if there are none."""
    stacks = {"encoder": model.network.encoder, "decoder": model.network.decoder}
    found = {side: _feed_forward_kinds(stack) for side, stack in stacks.items()}
    if MoE1D not in {*found["encoder"], *found["decoder"]}:
        return {}
    layers = [layer for s in stacks.values() for layer in s.layer_stack.layers]
    layer = next(layer for layer in layers if type(layer) is MoE1D)
    if layer.switch_policy_eval == "sample":
        raise ConfigError('MoE1D.switch_policy_eval is "sample"; transformers takes the likeliest.')
    longest = max(model.settings.sequence_length.values())
    return {
        "num_experts": layer.num_experts,
        "expert_capacity": layer.expert_capacity or layer.capacity(longest, training=False),
        "router_jitter": layer.switch_jitter,
        "router_loss": layer.loss_coef,
        "router_z_loss": layer.z_loss or 0.0,
        **{f"{side}_step": _sparse_step(side, kinds) for side, kinds in found.items()},
    }


def _feed_forward_kinds(stack: Unitransformer) -> list[type]:
    kinds = [type(layer) for layer in stack.layer_stack.layers]
    return [kind for kind in kinds if kind in (DenseReluDense, MoE1D)]


def _sparse_step(side: str, kinds: Sequence[type]) -> int:
    """Every so many feed-forward layers the second, or only, one is of experts."""
    sparse = [kind is MoE1D for kind in kinds]
    if not any(sparse):
        return 0
    for step in range(1, len(kinds) + 1):
        stack = Stack(side, len(kinds), step)
        if len(kinds) % step == 0 and sparse == [stack.is_sparse(b) for b in range(len(kinds))]:
            return step
    names = ", ".join(kind.__name__ for kind in kinds)
    raise ConfigError(
        f"The {side}'s feed-forward layers are {names}: Hugging Face's switch_transformers has a "
        "layer of experts in every block, or in the second of every few."
    )


def _blocks(stack: Unitransformer) -> int:
    return sum(type(layer) is SelfAttention for layer in stack.layer_stack.layers)


def _has_legacy_norms(stack: Unitransformer) -> bool:
    return sublayers.sublayer_legacy_final_rms_norm in stack.layer_stack.sublayers_final


def _query(model: Model, name: str, default: float) -> float:
    return model.config.query(name, default)
