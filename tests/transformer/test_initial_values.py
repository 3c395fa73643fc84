"""Initial values have the original's distributions."""

import pytest

TRUNCATED = 0.87962566
"""The standard deviation of a standard normal distribution cut off at 2."""

SIZES = ["d_model = 256", "d_ff = 512", "num_heads = 16", "d_kv = 32", "num_layers = 1"]
LEARNED = "transformer.Unitransformer.positional_embedding = True"
LAYER = "decoder/block_000/layer_000/SelfAttention"


@pytest.fixture(scope="module")
def spread(build):
    """Mean and standard deviation of every variable."""

    def spread(*params):
        found = {}
        for name, variable in build("t5_tiny", *SIZES, *params).variables.items():
            value = variable.numpy()
            found[name] = value.mean(), value.std()
        return found

    return spread


def test_of_t5(spread):
    found = spread(LEARNED)
    for tower in ("encoder", "decoder"):
        for i, layer in enumerate(["SelfAttention", "EncDecAttention", "DenseReluDense"]):
            scope = f"{tower}/block_000/layer_{i:03d}/{layer}"
            if layer.endswith("Attention") and f"{scope}/q" in found:
                assert found[f"{scope}/q"][1] == pytest.approx((256 * 32) ** -0.5, rel=0.01)
                assert found[f"{scope}/k"][1] == pytest.approx(256**-0.5, rel=0.01)
                assert found[f"{scope}/v"][1] == pytest.approx(256**-0.5, rel=0.01)
                assert found[f"{scope}/o"][1] == pytest.approx((16 * 32) ** -0.5, rel=0.01)
    dense = "decoder/block_000/layer_002/DenseReluDense"
    for name, fan_in in {
        f"{dense}/wi_0/kernel": 256,
        f"{dense}/wi_1/kernel": 256,
        f"{dense}/wo/kernel": 512,
        "decoder/logits/kernel": 256,
    }.items():
        assert found[name][1] == pytest.approx(TRUNCATED * fan_in**-0.5, rel=0.01)
    for name in ("shared/embedding", "shared/positional_embedding"):
        assert found[name][1] == pytest.approx(1.0, rel=0.01)
    # Glorot and Bengio 2010, uniform over 16 heads and 32 buckets.
    assert found[f"{LAYER}/relative_attention_bias"][1] == pytest.approx((2 / 48) ** 0.5, rel=0.1)
    assert all(value == (1, 0) for name, value in found.items() if name.endswith("/scale"))


def test_all_draws_are_centred(spread):
    for name, (mean, stddev) in spread().items():
        if not name.endswith("/scale"):
            assert abs(mean) < 0.25 * stddev, name


def test_the_scale_of_attention_may_stay_out_of_the_queries(spread):
    found = spread("SelfAttention.fold_scaling_into_initializer = False")
    assert found[f"{LAYER}/q"][1] == pytest.approx(256**-0.5, rel=0.01)


def test_an_embedding_like_a_classifier(spread):
    found = spread("VocabEmbedding.scale_variable_like_classifier_weights = True")
    assert found["shared/embedding"][1] == pytest.approx(256**-0.5, rel=0.01)


def test_values_depend_on_the_name_and_the_seed_only(build):
    one = build("t5_tiny", seed=1).variables
    again = build("t5_tiny", "decoder/make_layer_stack.num_layers = 1", seed=1).variables
    other = build("t5_tiny", seed=2).variables
    names = ["encoder/block_001/layer_000/SelfAttention/q", "shared/embedding"]
    for name in names:
        assert (one[name].numpy() == again[name].numpy()).all()
        assert (one[name].numpy() != other[name].numpy()).all()
    k = "encoder/block_001/layer_000/SelfAttention/k"
    assert abs((one[k].numpy() * one[names[0]].numpy()).mean()) < 0.01
