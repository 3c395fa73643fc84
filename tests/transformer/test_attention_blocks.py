"""Attention by blocks of queries equals attention at once, in values and gradients."""

import numpy as np
import pytest

import mtf_models as mtf

KINDS = {
    "t5_tiny": [
        'SelfAttention.relative_attention_type = "bias_shared"',
        'EncDecAttention.relative_attention_type = "bias"',
        "relative_position_spans.num_sentinels = 20",
        "SelfAttention.z_loss_coeff = 0.1",
        "num_layers = 1",
    ],
    "lm_tiny": [
        'SelfAttention.relative_attention_type = "contextual"',
        "SelfAttention.num_memory_heads = 2",
        "SelfAttention.dropout_rate = 0.2",
        "LayerStack.recompute_grads = True",
        "num_layers = 1",
    ],
}
# Blocks of 4 queries, of which the last has fewer.
BLOCKS = ["rows_at_once.longest_whole = 2", "rows_at_once.block_length = 4"]


def features(model):
    rng = np.random.default_rng(0)
    found = {name: rng.integers(2, 100, [4, 10]) for name in model.network.feature_names}
    for name, ids in list(found.items()):
        ids[1, 6:] = 0
        found[f"{name}_segmentation"] = (ids != 0) * (1 + (np.arange(10) > 5))
        found[f"{name}_position"] = np.tile(np.arange(10), [4, 1])
    return found


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("mesh", ["", pytest.param("batch:2;model:2", marks=pytest.mark.nightly)])
def test_blocks_change_nothing(build, name, mesh):
    mesh = mtf.Mesh(mesh, layout="batch:batch,heads:model,d_ff:model,vocab:model")
    whole = build(name, *KINDS[name], seed=1)
    blocked = build(name, *KINDS[name], *BLOCKS, mesh=mesh, seed=1)
    batch = features(whole)
    found, right = blocked(batch, "train"), whole(batch, "train")
    np.testing.assert_allclose(found.logits, right.logits, rtol=1e-4, atol=1e-5)
    assert float(found.loss) == pytest.approx(float(right.loss), rel=1e-5)
    found, right = blocked.gradients(batch), whole.gradients(batch)
    for variable, gradient in right.items():
        gradient = gradient.numpy()
        off = np.max(np.abs(found[variable].numpy() - gradient))
        assert off < 1e-4 * np.max(np.abs(gradient)) + 1e-7, variable


def test_no_matrix_of_all_logits_is_computed(build):
    model = build("lm_tiny", *BLOCKS, "num_layers = 1")
    sizes = set()
    original = mtf.Tensor.__init__

    def watched(self, mesh, shape, value):
        sizes.add(tuple(d.size for d in shape if d.name in ("length", "memory_length")))
        original(self, mesh, shape, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mtf.Tensor, "__init__", watched)
        model.gradients({"targets": np.ones([2, 10], np.int32)})
    assert (4, 10) in sizes and (10, 10) not in sizes


@pytest.mark.parametrize(
    "layer, params",
    [
        ("SelfAttention", []),
        ("SelfAttention", BLOCKS),
        ("LocalSelfAttention", ["LocalSelfAttention.radius = 3"]),
        ("Synthesizer", ["Synthesizer.table_length = 16"]),
    ],
    ids=["at once", "in blocks", "local", "synthetic"],
)
def test_weights_are_dropped_alike_along_named_dimensions(build, layer, params):
    batch = {"targets": np.random.default_rng(0).integers(2, 100, [4, 10])}
    params = [
        *params,
        "num_layers = 1",
        f"transformer.make_layer_stack.layers = [@{layer}]",
        f"{layer}.dropout_rate = 0.3",
    ]

    def logits(*names):
        alike = [f"{layer}.attention_kwargs = {{'dropout_broadcast_dims': {names}}}"]
        model = build("lm_tiny", *params, *(alike if names else []), seed=1)
        return model(batch, "train").logits.numpy()

    default = logits()
    np.testing.assert_array_equal(logits("length"), default)
    assert np.max(np.abs(logits("length", "heads") - default)) > 1e-3
