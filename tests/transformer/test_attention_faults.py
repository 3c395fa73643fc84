"""Options of attention layers that contradict each other are refused, all at once."""

import pytest

from mtf_models.errors import ConfigError
from mtf_models.transformer.attention import EncDecAttention, SelfAttention


@pytest.mark.parametrize(
    "options, message",
    [
        ({"relative_attention_type": "contextal"}, "'contextal'; it can be None, \"bias\""),
        ({"attention_func": "hybird"}, 'SelfAttention.attention_func is .*None, "hybrid"'),
        ({"attention_kwargs": {"extra_logits": 0.0}}, "'extra_logits'.*extra_logit"),
        ({"attention_kwargs": {"dropout_broadcast_dims": ["lenght"]}}, "'lenght'.*length"),
        ({"attention_kwargs": {"logits_soft_cap": 0.0}}, "soft_cap = 0.0: give a number above 0"),
        ({"relative_attention_type": "rotary", "key_value_size": 7}, "is 7: make it even"),
        ({"keep_query_heads_dims": True}, "set combine_dims = False"),
        ({"num_heads": 6, "num_memory_heads": 4}, "6 query heads cannot share 4 memory heads"),
        ({"num_heads": 6, "num_memory_heads": 4, "attention_func": "x"}, "'x'.*; .*cannot share 4"),
    ],
)
def test_faulty_options(options, message):
    with pytest.raises(ConfigError, match=message):
        SelfAttention(**options)


@pytest.mark.parametrize(
    "layer, option",
    [
        ("LocalSelfAttention", "z_loss_coeff = 0.1"),
        ("LocalSelfAttention", "attention_func = 'hybrid'"),
        ("Synthesizer", "z_loss_coeff = 0.1"),
        ("ExpertsSelfAttention", "z_loss_coeff = 0.1"),
    ],
)
def test_options_that_a_layer_inherits_and_does_nothing_with(build, layer, option):
    params = [
        f"make_layer_stack.layers = [@{layer}]",
        f"transformer_layers.SelfAttention.{option}",
        "transformer_layers.SelfAttention.shared_kv = True",
    ]
    with pytest.raises(ConfigError, match=f"{layer} has {option}, which it does nothing with"):
        build("lm_tiny", *params)


@pytest.mark.parametrize("layer", ["Synthesizer", "ExpertsSelfAttention"])
def test_a_cap_of_products_that_a_layer_does_not_make(build, layer):
    params = [
        f"make_layer_stack.layers = [@{layer}]",
        "transformer_layers.SelfAttention.attention_kwargs = {'logits_soft_cap': 2.0}",
        "transformer_layers.SelfAttention.shared_kv = True",
    ]
    with pytest.raises(ConfigError, match=f"{layer}.attention_kwargs has logits_soft_cap"):
        build("lm_tiny", *params)


def test_attention_to_an_encoder_knows_no_distances_in_one_sequence():
    with pytest.raises(ConfigError, match="EncDecAttention.relative_attention_type is 'rotary'"):
        EncDecAttention(relative_attention_type="rotary")


def test_attention_to_an_encoder_needs_one(build):
    layers = "encoder/make_layer_stack.layers = [@SelfAttention, @EncDecAttention]"
    with pytest.raises(ConfigError, match="EncDecAttention attends to an encoder, .*decoder/make"):
        build("t5_tiny", layers)


def test_hybrid_attention_is_not_for_decoders(build):
    hybrid = 'decoder/SelfAttention.attention_func = "hybrid"'
    with pytest.raises(ConfigError, match="normalised over all queries.*encoder/SelfAttention"):
        build("t5_tiny", hybrid)
    model = build("t5_tiny", hybrid.replace("decoder", "encoder"))
    coefficients = [v.numpy() for n, v in model.variables.items() if "doubly_coeff" in n]
    assert list(map(float, coefficients)) == [0.5, 0.5]
