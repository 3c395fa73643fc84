"""Variables of variance 1, and what a product is divided by instead."""

import gin
import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.layers.dense import dense
from mtf_models.layers.unit_scaling import us_einsum
from mtf_models.optimize import AdafactorOptimizer
from mtf_models.transformer.projections import AttentionProjections
from mtf_models.transformer.vocab import Vocab, VocabEmbedding, untied_logits

IN, OUT = mtf.Dimension("in", 64), mtf.Dimension("out", 64)


@pytest.fixture
def unit_scaling():
    with gin.unlock_config():
        gin.bind_parameter("mesh_tensorflow.layers.unit_scaling_convention.value", True)
    yield
    gin.clear_config()


def kernel_and_result():
    mesh = mtf.Mesh()
    store = mtf.VariableStore(mesh)
    array = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    with store.eager():
        x = mtf.import_tf_tensor(mesh, array, [("batch", 8), IN])
        y = dense(x, [OUT], use_bias=False)
    return array, store.variables["dense/kernel"].numpy(), y.numpy()


def test_without_it_the_kernel_is_small():
    x, kernel, y = kernel_and_result()
    # Truncated at two standard deviations, which is not corrected for.
    assert kernel.std() == pytest.approx(0.88 / 8, rel=0.05)
    np.testing.assert_allclose(y, x @ kernel, rtol=1e-4, atol=1e-5)


def test_with_it_the_product_is_divided(unit_scaling):
    x, kernel, y = kernel_and_result()
    assert kernel.std() == pytest.approx(0.88, rel=0.05)
    np.testing.assert_allclose(y, x @ kernel / 8, rtol=1e-4, atol=1e-5)


def test_every_summed_dimension_counts(unit_scaling):
    mesh = mtf.Mesh()
    a, b = mtf.ones(mesh, "p:2,q:8,r:4"), mtf.ones(mesh, "q:8,s:3")
    assert us_einsum([a, b], output_shape="p:2,s:3").numpy() == pytest.approx(32 / 32**0.5)


@pytest.mark.parametrize("fold", [False, True])
def test_projections_of_attention(unit_scaling, fold):
    """Variables have variance 1, and results the size that they have without it."""
    mesh = mtf.Mesh()
    store = mtf.VariableStore(mesh)
    array = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    with store.eager():
        x = mtf.import_tf_tensor(mesh, array, [("batch", 8), IN])
        key = mtf.Dimension("d_kv", 16)
        maps = AttentionProjections(
            mesh, IN, key, 4, 0, mtf.VariableDType(), False, True, fold, False
        )
        q, k = maps.query(x), maps.key(x)
        o, apart = maps.output(k), maps.output(k, keep_heads=True)
    w = {n: v.numpy() for n, v in store.variables.items()}
    assert [w[n].std() for n in "qko"] == pytest.approx([1.0] * 3, rel=0.05)
    np.testing.assert_allclose(
        q.numpy().reshape(8, 64), array @ w["q"] / 8 / 4, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(k.numpy().reshape(8, 64), array @ w["k"] / 8, rtol=1e-4, atol=1e-5)
    right = array @ w["k"] / 8 @ w["o"] / 8
    np.testing.assert_allclose(o, right, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(apart.numpy().sum(axis=1), right, rtol=1e-4, atol=1e-4)


def test_both_ends_of_a_model(unit_scaling):
    mesh, vocab = mtf.Mesh(), Vocab.of_size(256, 1)
    store = mtf.VariableStore(mesh)
    array = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    with store.eager():
        x = mtf.import_tf_tensor(mesh, array, [("batch", 8), IN])
        embedding = VocabEmbedding(mesh, vocab, IN, mtf.VariableDType(), "table", True)
        tied = embedding.hidden_to_logits(x)
        untied = untied_logits(x, vocab, IN, mtf.VariableDType())
    table, kernel = (store.variables[n].numpy() for n in ("table", "logits/kernel"))
    assert table.std() == pytest.approx(1.0, rel=0.05)
    assert kernel.std() == pytest.approx(0.88, rel=0.05)
    np.testing.assert_allclose(tied, array @ table.T / 8, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(untied, array @ kernel / 8, rtol=1e-4, atol=1e-5)


def test_steps_are_not_smaller_without_parameter_scale(unit_scaling):
    rates = [
        AdafactorOptimizer(multiply_by_parameter_scale=scale).rate(None, 0)
        for scale in (True, False)
    ]
    assert rates == [0.01, 0.01]
