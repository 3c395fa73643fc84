"""The Switch models have the parameters of the paper and of the released checkpoints."""

import pytest

import mtf_models as mtf


def by_hand(experts, d_ff, matrices, tables):
    """12 + 12 layers of width 768, every other feed-forward layer a mixture."""
    d_model, inner, vocabulary = 768, 12 * 64, 32128
    attention = 4 * d_model * inner
    feed_forward = matrices * d_model * d_ff
    mixture = experts * feed_forward + d_model * experts
    layers = 12 * attention + 24 * attention + 12 * (feed_forward + mixture)
    norms = 12 * 2 * d_model + 12 * 3 * d_model + 2 * d_model
    return layers + norms + 2 * 32 * 12 + tables * vocabulary * d_model


@pytest.mark.parametrize(
    ("file", "arguments", "published"),
    [
        ("switch.base", (128, 2048, 3, 2), 7e9),
        ("switch.base.8", (8, 3072, 2, 1), 6.19e8),
    ],
)
def test_parameters(file, arguments, published):
    count = mtf.build_model([f"models/{file}.gin"]).parameters
    assert count == by_hand(*arguments)
    assert count == pytest.approx(published, rel=0.07)  # published as 7B and 619M


def test_the_tiny_example_has_a_mixture_on_each_side():
    model = mtf.build_model(["examples/switch_tiny.gin"])
    found = [n for n, v in model.variables.items() if n.endswith("MoE1D/wo/kernel")]
    assert found == [
        "encoder/block_000/layer_003/MoE1D/wo/kernel",
        "decoder/block_000/layer_005/MoE1D/wo/kernel",
    ]
