"""An architecture of Hugging Face's to a config of ours."""

from __future__ import annotations

from collections.abc import Iterator

from mtf_models import config as gin_config
from mtf_models.checkpoint.architecture import Architecture
from mtf_models.checkpoint.single_stack import BERT, GPT2, SingleStack
from mtf_models.config import Config, GinText

# What all of the family have: two stacks, no embedding of positions, biases of relative positions.
_FAMILY = "models/t5.1.0.base.gin"
_SINGLE_STACKS = {GPT2: "models/gpt2.small.gin", BERT: "models/bert.base.gin"}
_DIVISOR = 128


def config_of(architecture: Architecture | SingleStack, dtype: str = "float32") -> Config:
    """The config of a model of an architecture, see `gin_of`."""
    return gin_config.parse([gin_of(architecture, dtype)])


def gin_of(
    architecture: Architecture | SingleStack, dtype: str = "float32", source: str = "config.json"
) -> GinText:
    """The config of a model of an architecture, as gin text.

    Args:
        architecture: what the model is.
        dtype: of the weights that it is to have. Those in float32 are computed with in float32, as
            transformers does; others as this machine prefers.
        source: what says what the model is, for messages.
    """
    if isinstance(architecture, SingleStack):
        file, bindings = _SINGLE_STACKS[architecture.model_type], _of_stack(architecture)
    else:
        file, bindings = _FAMILY, _bindings(architecture)
    return GinText("\n".join([f"include {file!r}", *bindings, *_dtypes(dtype)]), source)


def _dtypes(dtype: str) -> Iterator[str]:
    master = "bfloat16" if dtype == "bfloat16" else "float32"
    yield f"get_variable_dtype.master_dtype = {master!r}"
    if dtype == "float32":
        yield "get_variable_dtype.activation_dtype = 'float32'"


def _bindings(a: Architecture) -> Iterator[str]:
    for name in ("d_model", "d_ff", "num_heads", "d_kv", "dropout_rate"):
        yield f"{name} = {getattr(a, name)!r}"
    yield f"SelfAttention.relative_attention_num_buckets = {a.num_buckets}"
    if a.bias_in_every_layer:
        yield 'SelfAttention.relative_attention_type = "bias"'
    activation = [a.activation, "linear"] if a.gated else a.activation
    yield f"DenseReluDense.activation = {activation!r}"
    yield f"Unitransformer.shared_embedding_and_softmax_weights = {a.tied}"
    yield f"sublayer_rms_norm.epsilon = {a.epsilon!r}"
    if a.legacy_norms:
        yield f"LayerStack.norm_epsilon = {a.epsilon!r}"
        yield "LayerStack.dropout_rate = %dropout_rate"
    for side in ("input", "output"):
        yield f"make_bitransformer.{side}_vocab_size = {a.vocab_size}"
    if a.vocab_size % _DIVISOR:
        yield "Unitransformer.vocab_divisor = 1"
    yield from _blocks(a)
    if a.num_experts:
        yield from _experts(a)


def _blocks(a: Architecture) -> Iterator[str]:
    encoder, decoder = a.stacks
    yield f"num_layers = {encoder.blocks // encoder.period}"
    if encoder.blocks // encoder.period != decoder.blocks // decoder.period:
        yield f"num_decoder_layers = {decoder.blocks // decoder.period}"
        yield "decoder/make_layer_stack.num_layers = %num_decoder_layers"


def _experts(a: Architecture) -> Iterator[str]:
    for stack in a.stacks:
        if stack.sparse_step:
            layers = []
            for block in range(stack.period):
                feed_forward = "MoE1D" if stack.is_sparse(block) else "DenseReluDense"
                layers += [f"@{name}" for name in (*stack.layers, feed_forward)]
            yield f"{stack.name}/make_layer_stack.layers = [{', '.join(layers)}]"
    yield 'MoE1D.moe_gating = "switch"'
    yield f"MoE1D.num_experts = {a.num_experts}"
    yield f"MoE1D.expert_capacity = {a.expert_capacity}"
    yield "MoE1D.hidden_size = %d_ff"
    yield f"MoE1D.activation = {a.activation!r}"
    yield "MoE1D.dropout_rate = %dropout_rate"
    yield f"MoE1D.switch_jitter = {a.router_jitter!r}"
    yield f"MoE1D.loss_coef = {a.router_loss!r}"
    yield f"MoE1D.z_loss = {a.router_z_loss!r}"


def _of_stack(s: SingleStack) -> Iterator[str]:
    for name in ("num_layers", "d_model", "d_ff", "num_heads", "d_kv", "dropout_rate"):
        yield f"{name} = {getattr(s, name)!r}"
    for side in ("input", "output"):
        yield f"make_bitransformer.{side}_vocab_size = {s.vocab_size}"
    yield f"Unitransformer.max_length = {s.max_length}"
    yield f"SelfAttention.dropout_rate = {s.attention_dropout_rate!r}"
    yield f"DenseReluDense.activation = {s.activation!r}"
    yield f"sublayer_true_layer_norm.epsilon = {s.epsilon!r}"
    if s.model_type == BERT:
        yield f"Unitransformer.type_vocab_size = {s.type_vocab_size}"
        yield f"MaskedLMVocabEmbedding.activation = {s.activation!r}"
        yield f"MaskedLMVocabEmbedding.epsilon = {s.epsilon!r}"
    else:
        yield f"Unitransformer.shared_embedding_and_softmax_weights = {s.tied}"
        yield f"Unitransformer.sample_autoregressive.stop_at_token = {s.end}"
        yield f"beam_search.eos_id = {s.end}"
