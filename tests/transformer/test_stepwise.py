"""Decoding position by position gives what whole sequences give."""

import numpy as np
import pytest

import mtf_models as mtf

LEARNED = "transformer.Unitransformer.positional_embedding = True"
VARIANTS = {
    "bias_shared": [],
    "bias": ["SelfAttention.relative_attention_type = 'bias'"],
    "one memory head": ["SelfAttention.num_memory_heads = 1"],
    "grouped heads": ["SelfAttention.num_memory_heads = 2"],
    "shared keys and values": ["SelfAttention.shared_kv = True"],
    "learned positions": [LEARNED, "SelfAttention.relative_attention_type = None"],
    "separate embeddings": ["Bitransformer.shared_embedding = False"],
}
LAYERS = "transformer.make_layer_stack.layers = [@SelfAttention, {}, @DenseReluDense]"
NEIGHBOURS = {
    "local attention": [LAYERS.format("@LocalSelfAttention"), "LocalSelfAttention.radius = 3"],
    "convolution": [
        LAYERS.format("@Conv1DLayer"),
        "Conv1DLayer.filter_size = 3",
        "Conv1DLayer.output_size = 32",
    ],
}
"""Layers of a language model that remember the last positions."""
CONVOLUTION = NEIGHBOURS["convolution"][1:]
NAMED = "transformer.make_layer_stack.layers = [('att', {}), ('ff', @DenseReluDense)]"
THRICE = ["transformer.make_layer_stack.block_scope = False", "num_layers = 3"]
SHARED = {
    "attention in every block": [NAMED.format("@SelfAttention"), *THRICE],
    "neighbours in every block": [
        NAMED.format("@LocalSelfAttention"),
        "LocalSelfAttention.radius = 3",
        *THRICE,
    ],
    "side by side": [
        LAYERS.format("@ParallelLayer"),
        "ParallelLayer.layer_classes = [@Conv1DLayer, @Conv1DLayer]",
        "ParallelLayer.use_scope = False",
        *CONVOLUTION,
    ],
}
"""Layers of a language model that share their weights."""
QUICK = ("grouped heads", "separate embeddings", "convolution", "attention in every block")
INPUTS = np.array([[5, 7, 9, 1, 0, 0], [11, 2, 1, 0, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)
PROMPTS = np.array([[5, 7, 9, 0], [11, 0, 0, 0], [0, 0, 0, 0]], np.int32)
LAYOUT = "batch:batch,heads:model,d_ff:model,vocab:model"


def assert_most_likely(ids, logits, first):
    """From position `first[i]` of row i on, until its end, ids are the argmax of the logits."""
    best = logits[:, :, :100].argmax(axis=-1)  # beyond is padding of the vocabulary
    for row, start in enumerate(first):
        ends = np.flatnonzero(ids[row, start:] == 1)
        stop = start + ends[0] + 1 if len(ends) else ids.shape[1]
        np.testing.assert_array_equal(ids[row, start:stop], best[row, start:stop])
        assert not ids[row, stop:].any()


def never_padding(model):
    """Gives id 0, which whole sequences take for padding, logits of 0, where others are higher."""
    kernel = model.variables["decoder/logits/kernel"]
    value = kernel.numpy()
    value[:, 0] = 0.0
    kernel.assign(value)


def some_of(variants):
    """All variants, those that are not quick marked as slow."""
    return [v if v in QUICK else pytest.param(v, marks=pytest.mark.slow) for v in variants]


@pytest.mark.parametrize("variant", some_of(VARIANTS))
def test_an_encoder_decoder(build, variant):
    model = build("t5_tiny", *VARIANTS[variant], seed=2)
    never_padding(model)
    result = model.decode({"inputs": INPUTS}, max_decode_length=7)
    ids = result.ids.numpy()
    assert ids.shape == (3, 7)
    features = {"inputs": INPUTS, "targets": ids}
    assert_most_likely(ids, model(features).logits.numpy(), first=[0, 0, 0])
    np.testing.assert_allclose(result.scores, model.score(features), rtol=1e-5)


@pytest.mark.parametrize(
    "variant",
    some_of([*(v for v in VARIANTS if v != "separate embeddings"), *NEIGHBOURS, *SHARED]),
)
def test_a_language_model(build, variant):
    model = build("lm_tiny", *{**VARIANTS, **NEIGHBOURS, **SHARED}[variant], seed=2)
    ids = model.decode({"inputs": PROMPTS}, max_decode_length=5).ids.numpy()
    assert ids.shape == (3, 9)
    prompted = PROMPTS > 0
    np.testing.assert_array_equal(ids[:, :4][prompted], PROMPTS[prompted])
    logits = model({"targets": ids}).logits.numpy()
    assert_most_likely(ids, logits, first=prompted.sum(axis=1))


def test_the_length_is_by_default_that_of_the_inputs(build):
    assert build("t5_tiny").decode({"inputs": INPUTS}).ids.shape.to_integer_list == [3, 6]


def test_a_language_model_adds_by_default_the_length_of_the_targets(build):
    assert build("lm_tiny").decode({"inputs": PROMPTS}).ids.shape.to_integer_list == [3, 18]


def test_padding_of_the_vocabulary_is_never_decoded(build):
    model = build("t5_tiny", seed=2)
    kernel = model.variables["decoder/logits/kernel"]
    value = kernel.numpy()
    value[:, 100:] = 10 * value[:, :28]
    kernel.assign(value)
    ids = model.decode({"inputs": INPUTS}).ids.numpy()
    logits = model({"inputs": INPUTS, "targets": ids}).logits.numpy()
    assert (logits.argmax(axis=-1) >= 100).any()
    assert ids.max() < 100


@pytest.mark.parametrize(
    "mesh",
    [
        "batch:2;model:4",
        pytest.param("batch:8", marks=pytest.mark.nightly),
        pytest.param("model:8", marks=pytest.mark.nightly),
        pytest.param("batch:4;model:2", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("name", ["t5_tiny", "lm_tiny"])
def test_on_meshes(build, name, mesh):
    assert_equal_on(build, name, mesh)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lm_tiny", {"beam_size": 2, "num_return": 2}),
        pytest.param("t5_tiny", {"beam_size": 3}, marks=pytest.mark.slow),
        pytest.param("t5_tiny", {"temperature": 1.0, "num_return": 2}, marks=pytest.mark.slow),
        pytest.param("lm_tiny", {"temperature": 1.0, "top_p": 0.9}, marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_beams_and_draws_on_a_mesh(build, name, options):
    assert_equal_on(build, name, "batch:2;model:4", **options)


def assert_equal_on(build, name, mesh, **options):
    """A mesh decodes what one device does."""
    features = {"inputs": np.concatenate([INPUTS, INPUTS[::-1], INPUTS[:2] + 9])}
    one, split = (
        build(name, "num_layers = 1", mesh=mesh, seed=2).decode(
            features, max_decode_length=6, **options
        )
        for mesh in (None, mtf.Mesh(mesh, layout=LAYOUT))
    )
    np.testing.assert_array_equal(split.ids, one.ids)
    np.testing.assert_allclose(split.scores, one.scores, rtol=1e-5)
