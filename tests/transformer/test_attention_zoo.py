"""Every kind of attention and convolution, on layouts, step by step, and in bfloat16."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError

LAYERS = {
    "rotary groups": '(@SelfAttention, {"relative_attention_type": "rotary", '
    '"num_memory_heads": 2})',
    "alibi": '(@SelfAttention, {"relative_attention_type": "alibi", "shared_kv": True})',
    "contextual": '(@SelfAttention, {"relative_attention_type": "contextual"})',
    "local": '(@LocalSelfAttention, {"radius": 3, "num_heads": 4, "key_value_size": 4})',
    "local rotary": '(@LocalSelfAttention, {"radius": 3, "num_heads": 4, "key_value_size": 4, '
    '"num_memory_heads": 2, "shared_kv": True, "relative_attention_type": "rotary", '
    '"attention_kwargs": {"logits_soft_cap": 2.0}})',
    "talking heads": '(@TalkingHeadsSelfAttention, {"key_heads_dims": [("heads", 4)], '
    '"softmax_heads_dims": [("softmax_heads", 2)], "value_heads_dims": [("heads", 4)], '
    '"key_size": 4, "value_size": 4, "dynamic_projections": ["x2l", "m2l", "x2w", "m2w"]})',
    "bilinear": '(@GeneralBilinearSelfAttention, {"heads_dims": [("heads", 2)], '
    '"relative_attention_type": "bias"})',
    "branched": "@BranchedSelfAttention",
    "random": '(@Synthesizer, {"table_length": 16})',
    "factorized": '(@Synthesizer, {"table_length": 16, "synthesize_mode": "factorized"})',
    "dense": '(@Synthesizer, {"table_length": 16, "synthesize_mode": "dense_plus"})',
    "parallel": "@ParallelLayer",
    "convolution": '(@Conv1DLayer, {"filter_size": 3, "output_size": 32})',
    "separable": '(@SeparableConv1DLayer, {"min_relative_pos": -2, "max_relative_pos": 0, '
    '"output_size": 32})',
    "dynamic": '(@LocalConvAttnBlock, {"min_relative_pos": -2, "max_relative_pos": 0, '
    '"output_size": 32, "attention_type": "dynamic_conv", "num_unique_depth_filters": 2})',
    "evolved": '(@DecoderConvolutionalLayer, {"d_model": 32, "dropout_rate": 0.0})',
    "fixup": '(@DenseReluDenseFixup, {"num_blocks": 2})',
}
IN_ENSEMBLES = [layer for name, layer in LAYERS.items() if name != "convolution"]
"""A whole convolution has one kernel for all of its input."""
STACK = [f"make_layer_stack.layers = [{', '.join(LAYERS.values())}]", "num_layers = 1"]
LENGTHS = [f"utils.run.sequence_length = {dict.fromkeys(('inputs', 'targets'), 12)}"]


@pytest.fixture(scope="module")
def model(build):
    """A language model that has every layer once."""
    return build("lm_tiny", *STACK, *LENGTHS, seed=2)


@pytest.fixture(scope="module")
def batch():
    ids = np.random.default_rng(0).integers(2, 100, [4, 12])
    ids[1, 7:] = 0
    return {"targets": ids}


def test_no_position_sees_later_ones(model, batch):
    changed = {"targets": batch["targets"].copy()}
    changed["targets"][:, 8:] = 5
    found, other = (model(b).logits.numpy() for b in (batch, changed))
    # The decoder reads what is before each target.
    np.testing.assert_allclose(found[:, :9], other[:, :9], rtol=1e-4, atol=1e-4)
    assert np.max(np.abs(found[:, 9:] - other[:, 9:])) > 1e-2


def test_decoding_scores_what_it_decodes(model, batch):
    prompt = batch["targets"][:, :4]
    decoded = model.decode({"inputs": prompt}, max_decode_length=8)
    padded = np.pad(prompt, [[0, 0], [0, 8]])
    right = model.score({"targets": decoded.ids}) - model.score({"targets": padded})
    np.testing.assert_allclose(decoded.scores, right, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_an_ensemble_is_its_members(build, batch):
    params = [
        f"make_layer_stack.layers = [{', '.join(IN_ENSEMBLES)}]",
        "num_layers = 1",
        *LENGTHS,
    ]
    rng = np.random.default_rng(0)
    together = build("lm_tiny", *params, "Unitransformer.ensemble = 2")
    members = [build("lm_tiny", *params, seed=seed) for seed in (1, 2)]
    for name, variable in together.variables.items():
        for member in members:
            value = member.variables[name].numpy()  # Some are 0 at first.
            member.variables[name].assign(value + 0.1 * rng.normal(size=value.shape))
        variable.assign(np.stack([m.variables[name].numpy() for m in members]))
    right = [m(batch) for m in members]
    found = together(batch)
    assert float(found.loss) == pytest.approx(sum(float(m.loss) for m in right), rel=1e-5)
    mean = np.mean([softmax(m.logits.numpy()) for m in right], axis=0)
    np.testing.assert_allclose(softmax(found.logits.numpy()), mean, rtol=1e-3, atol=1e-6)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.nightly
@pytest.mark.parametrize("axis", ["batch:2;model:2", "length:2;model:2"])
def test_layouts_change_nothing(build, model, batch, axis):
    layout = f"heads:model,d_ff:model,vocab:model,{axis.split(':')[0]}:{axis.split(':')[0]}"
    split = build("lm_tiny", *STACK, *LENGTHS, mesh=mtf.Mesh(axis, layout=layout), seed=2)
    found, right = split(batch, "train"), model(batch, "train")
    assert float(found.loss) == pytest.approx(float(right.loss), rel=1e-5)
    found, right = split.gradients(batch), model.gradients(batch)
    for name, gradient in right.items():
        gradient = gradient.numpy()
        off = np.max(np.abs(found[name].numpy() - gradient))
        assert off < 2e-4 * np.max(np.abs(gradient)) + 1e-6, name


def test_bfloat16_is_near_float32(build, model, batch):
    low = build(
        "lm_tiny", *STACK, *LENGTHS, 'get_variable_dtype.activation_dtype = "bfloat16"', seed=2
    )
    found, right = float(low(batch, "train").loss), float(model(batch, "train").loss)
    assert found == pytest.approx(right, rel=0.02)


@pytest.mark.parametrize(
    "layer, message",
    [
        ('(@Synthesizer, {"table_length": 8})', "12 positions, and Synthesizer .* for 8"),
        ('(@Synthesizer, {"synthesize_mode": "dens"})', "synthesize_mode is 'dens'; .*'random'"),
        ('(@BranchedSelfAttention, {"num_memory_heads": 2})', "num_memory_heads is 2"),
        ('(@Conv1DLayer, {"filter_size": 3, "output_size": 8})', "output_size is 8 .* d_model 32"),
        (
            '(@SeparableConv1DLayer, {"min_relative_pos": -1, "max_relative_pos": 1, '
            '"output_size": 32})',
            "max_relative_pos is 1 in a stack that is autoregressive.*encoder",
        ),
        (
            '(@EncoderConvolutionalLayer, {"d_model": 32, "dropout_rate": 0.0})',
            "take DecoderConvolutionalLayer",
        ),
        ("(@DecoderAttentionLayer, {'base_num_heads': 2})", "EncDecAttention attends to an enc"),
        (
            '(@TalkingHeadsSelfAttention, {"dynamic_projections": ["x2q"]})',
            "dynamic_projections has .'x2q'.; they can be x2l",
        ),
    ],
)
def test_layers_that_do_not_fit(build, layer, message):
    with pytest.raises(ConfigError, match=message):
        build("lm_tiny", f"make_layer_stack.layers = [{layer}]", *LENGTHS)
