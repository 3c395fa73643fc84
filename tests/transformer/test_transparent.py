"""Attention to mixtures of the encoder's layers."""

import numpy as np
import pytest

from mtf_models.errors import ConfigError

PARAMS = [
    "num_layers = 2",
    "decoder/make_layer_stack.layers = [@SelfAttention, @TransparentEncDecAttention, "
    "@DenseReluDense]",
    "TransparentEncDecAttention.layers_per_encoder_module = 2",
    "TransparentEncDecAttention.layers_per_decoder_module = 3",
    "TransparentEncDecAttention.encoder_num_modules = 2",
    "TransparentEncDecAttention.decoder_num_modules = 2",
]
INPUTS = np.array([[5, 7, 9, 1, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)
FEATURES = {"inputs": INPUTS, "targets": np.array([[8, 6, 1, 0], [9, 2, 4, 1]], np.int32)}


def columns(model):
    return {n: v for n, v in model.variables.items() if n.endswith("/w")}


def same_weights(plain, transparent):
    for name, variable in plain.variables.items():
        mixed = name.replace("/EncDecAttention/", "/TransparentEncDecAttention/")
        transparent.variables[mixed].assign(variable.numpy())


def test_all_weight_on_the_last_layer_is_ordinary_attention(build):
    plain, transparent = build("t5_tiny", seed=2), build("t5_tiny", *PARAMS, seed=3)
    same_weights(plain, transparent)
    assert len(columns(transparent)) == 2
    for variable in columns(transparent).values():
        assert variable.shape.to_integer_list == [3, 2]
        assert not variable.numpy().any()
        variable.assign([[-50.0, -50.0], [-50.0, -50.0], [50.0, 50.0]])
    right = plain(FEATURES).logits.numpy()
    np.testing.assert_allclose(transparent(FEATURES).logits, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stack", ["LayerStack", "ReversibleLayerStack"])
def test_each_module_of_the_decoder_has_its_column(build, stack):
    stack = f"decoder/make_layer_stack.layer_stack_cls = @transformer.{stack}"
    model = build("t5_tiny", *PARAMS, stack, seed=2)
    found = model.gradients(FEATURES)
    used = [np.abs(found[name].numpy()).max(axis=0) > 0 for name in sorted(columns(model))]
    np.testing.assert_array_equal(used, [[True, False], [False, True]])


def test_recomputation_changes_nothing(build):
    kept = build("t5_tiny", *PARAMS, seed=2).gradients(FEATURES)
    again = build("t5_tiny", *PARAMS, "LayerStack.recompute_grads = True", seed=2)
    for name, gradient in again.gradients(FEATURES).items():
        np.testing.assert_allclose(gradient, kept[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_decoding(build, beam_size):
    model = build("t5_tiny", *PARAMS, seed=2)
    result = model.decode({"inputs": INPUTS}, beam_size=beam_size, alpha=0.0, max_decode_length=5)
    rescored = model.score({"inputs": INPUTS, "targets": result.ids.numpy()})
    np.testing.assert_allclose(result.scores, rescored, rtol=1e-5)


def test_shared_weights_mix_the_column_of_each_module(build):
    layers = "('self', @SelfAttention), ('enc', @TransparentEncDecAttention), @DenseReluDense"
    shared = f"decoder/make_layer_stack.layers = [{layers}]"
    apart = "decoder/make_layer_stack.block_scope = False"
    model = build("t5_tiny", *PARAMS, shared, apart, seed=2)
    (w,) = columns(model).values()
    w.assign([[50.0, 0.0], [0.0, 50.0], [0.0, 0.0]])
    result = model.decode({"inputs": INPUTS}, max_decode_length=5)
    rescored = model.score({"inputs": INPUTS, "targets": result.ids.numpy()})
    np.testing.assert_allclose(result.scores, rescored, rtol=1e-5)


@pytest.mark.parametrize(
    "param, message",
    [
        ("encoder_num_modules = 3", "3 modules of 2 layers are 6 layers of an encoder.* has 4"),
        ("decoder_num_modules = 1", "1 modules of 3 layers are 3 layers of a decoder.* has more"),
    ],
)
def test_other_stacks_than_it_says(build, param, message):
    with pytest.raises(ConfigError, match=message):
        build("t5_tiny", *PARAMS, f"TransparentEncDecAttention.{param}")(FEATURES)


def test_an_encoder_that_pools_between_its_layers(build):
    stack = "mesh_tensorflow.transformer.funnel_transformer.FunnelTransformerLayerStack"
    funnel = [
        f"encoder/make_layer_stack.layer_stack_cls = @{stack}",
        "FunnelTransformerLayerStack.n_blocks = 2",
        "FunnelTransformerLayerStack.block_param_size = [1, 1]",
        "FunnelTransformerLayerStack.block_repeat_size = [1, 1]",
    ]
    with pytest.raises(ConfigError, match="differ in length"):
        build("t5_tiny", *PARAMS, *funnel)
