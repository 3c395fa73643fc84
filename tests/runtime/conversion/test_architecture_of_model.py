"""What Hugging Face's words are for configs: those that ship, and what the original wrote."""

import dataclasses
from pathlib import Path

import pytest

from mtf_models import config as gin_config
from mtf_models.checkpoint.architecture import Architecture
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh
from mtf_models.runtime.conversion.architecture_of_model import architecture_of
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.registry import register

WRITTEN_BY_THE_ORIGINAL = Path(__file__).parents[2] / "config" / "data" / "operative"
T5_TINY = Architecture(
    vocab_size=32128,
    d_model=32,
    d_kv=8,
    d_ff=64,
    num_heads=4,
    num_layers=2,
    num_decoder_layers=2,
    dropout_rate=0.0,
)


@pytest.fixture(scope="module")
def read():
    register()

    def architecture(name, *params):
        shipped = name.startswith("models/")
        file = name if shipped else str(WRITTEN_BY_THE_ORIGINAL / f"{name}.gin")
        return architecture_of(model_from_config(gin_config.parse([file], params), Mesh()))

    return architecture


def test_the_original_wrote_its_configs_so(read):
    assert read("t5_1_0_tiny") == T5_TINY
    gated = dataclasses.replace(
        T5_TINY, d_kv=12, d_ff=48, activation="gelu", gated=True, tied=False
    )
    assert read("t5_1_1_tiny") == gated


def test_those_of_releases_have_legacy_norms(read):
    """Their lists of sublayers are None, since dropout_rate and norm_epsilon say the same."""
    found = read("legacy_norm_names")
    assert found.legacy_norms
    assert not read("t5_1_0_tiny").legacy_norms


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("models/t5.1.0.small", dict(model_type="t5", num_layers=6, d_ff=2048, tied=True)),
        ("models/byt5.small", dict(vocab_size=384, num_layers=12, num_decoder_layers=4)),
        ("models/mt5.small", dict(model_type="mt5", vocab_size=250112, tied=False, gated=True)),
        ("models/umt5.small", dict(model_type="umt5", vocab_size=256384, bias_in_every_layer=True)),
        (
            "models/switch.base.8",
            dict(model_type="switch_transformers", num_experts=8, encoder_step=2, num_layers=12),
        ),
    ],
)
def test_models_that_ship(read, name, fields):
    found = dataclasses.asdict(read(f"{name}.gin"))
    assert {key: found[key] for key in fields} == fields


def test_experts_may_be_in_every_block(read):
    """Then no layer but a mixture says how wide they are."""
    layers = "make_layer_stack.layers = [@SelfAttention, @MoE1D]"
    blocks = "num_layers = 2"
    found = read("models/switch.base.8.gin", blocks, f"encoder/{layers}")
    assert (found.encoder_step, found.decoder_step, found.d_ff) == (1, 2, 3072)
    with_targets = "make_layer_stack.layers = [@SelfAttention, @EncDecAttention, @MoE1D]"
    both = (f"encoder/{layers}", f"decoder/{with_targets}")
    found = read("models/switch.base.8.gin", blocks, *both)
    assert (found.encoder_step, found.decoder_step, found.d_ff) == (1, 1, 3072)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("shared_kv", "encoder/SelfAttention.shared_kv = True"),
        ("ensemble", "decoder/Unitransformer.ensemble = 2"),
        ("encdec_span_bias", "decoder/EncDecAttention.relative_attention_type = 'bias'"),
        ("named_adapter_layers", "'adapter'"),
        ("vocab_mixture_of_softmaxes", "get_vocab_embedding_cls.cls = @MixtureOfSoftmaxes"),
        ("talking_heads", "no SelfAttention but TalkingHeadsSelfAttention"),
        ("shared_encoder_decoder", "make_bitransformer.encoder_name = 'decoder'"),
    ],
)
def test_what_has_no_counterpart_is_named(read, name, part):
    with pytest.raises(ConfigError) as caught:
        read(name)
    assert part in str(caught.value)


def test_what_acts_in_training_only_has_no_part(read):
    params = ["Unitransformer.z_loss = 0.5", "decoder/Unitransformer.label_smoothing = 0.1"]
    params += ["LayerStack.recompute_grads = True", "SelfAttention.dropout_rate = 0.3"]
    assert read("t5_1_0_tiny", *params) == T5_TINY
