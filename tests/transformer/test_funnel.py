"""Stacks that shorten their sequence."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.funnel import FunnelTransformerLayerStack
from mtf_models.transformer.layer import TransformerLayer


class Recording(TransformerLayer):
    """Adds 1; notes its name and the length it was called with."""

    def __init__(self, calls):
        self.calls = calls

    def call(self, context, x):
        self.calls.append((self.name, context.length_dim.size))
        return x + 1.0


def funnel(calls, layers=6, **options):
    options = {"n_blocks": 2, "block_param_size": [1, 2], "block_repeat_size": [2, 1], **options}
    return FunnelTransformerLayerStack([Recording(calls) for _ in range(layers)], **options)


@pytest.mark.parametrize("pooling, pool", [("mean", np.mean), ("max", np.max), ("min", np.min)])
def test_pooling_after_the_first_layer_of_each_later_block(make_context, pooling, pool):
    calls = []
    batch, length = mtf.Dimension("batch", 2), mtf.Dimension("length", 4)
    context = make_context(batch, length, mtf.Dimension("d_model", 3))
    array = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    x = mtf.import_tf_tensor(context.mesh, array, [batch, length, context.d_model])
    y = funnel(calls, pooling_type=pooling).call(context, x)
    first, second = "funnel_block_000/param_idx_000", "funnel_block_001/param_idx"
    assert calls == [
        *[(f"{first}/submodule_00{i}", 4) for i in (0, 1, 0, 1)],
        (f"{second}_000/submodule_000", 4),
        (f"{second}_000/submodule_001", 2),
        (f"{second}_001/submodule_000", 2),
        (f"{second}_001/submodule_001", 2),
    ]
    right = pool((array + 5).reshape(2, 2, 2, 3), axis=2) + 3
    np.testing.assert_allclose(y, right, rtol=1e-6)
    assert context.position.numpy().tolist() == [0, 1]
    assert context.memory_length_dim.size == 2


def test_a_length_that_cannot_be_pooled(make_context):
    batch, length = mtf.Dimension("batch", 2), mtf.Dimension("length", 5)
    context = make_context(batch, length, mtf.Dimension("d_model", 3))
    x = mtf.ones(context.mesh, [batch, length, context.d_model])
    with pytest.raises(ConfigError, match="2 positions into one.*length.*5.*multiple of 2"):
        funnel([]).call(context, x)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"layers": 4}, "3 sets of 2 layers need 6 layers and there are 4"),
        ({"block_param_size": [3]}, "block_param_size"),
        ({"block_repeat_size": [1, 0]}, "block_repeat_size"),
        ({"pooling_type": "sum"}, "'sum'.*mean, max, min"),
    ],
)
def test_blocks_that_do_not_fit(options, message):
    with pytest.raises(ConfigError, match=message):
        funnel([], **options)


@pytest.mark.parametrize(
    "recomputed",
    [
        ["LayerStack.recompute_grads = True"],
        ["rows_at_once.longest_whole = 2", "rows_at_once.block_length = 2"],
    ],
    ids=["layers", "blocks of queries"],
)
def test_recomputation_sees_the_length_that_a_layer_had(build, recomputed):
    stack = "mesh_tensorflow.transformer.funnel_transformer.FunnelTransformerLayerStack"
    params = [
        f"encoder/make_layer_stack.layer_stack_cls = @{stack}",
        "FunnelTransformerLayerStack.n_blocks = 2",
        "FunnelTransformerLayerStack.block_param_size = [1, 1]",
        "FunnelTransformerLayerStack.block_repeat_size = [1, 1]",
        "num_layers = 2",
    ]
    features = {
        "inputs": np.array([[5, 7, 9, 1, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32),
        "targets": np.array([[8, 6, 1, 0], [9, 2, 4, 1]], np.int32),
    }
    kept = build("t5_tiny", *params, seed=2).gradients(features)
    again = build("t5_tiny", *params, *recomputed, seed=2)
    for name, gradient in again.gradients(features).items():
        np.testing.assert_allclose(gradient, kept[name], rtol=1e-4, atol=1e-6, err_msg=name)
