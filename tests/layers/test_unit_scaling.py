"""Variables of variance 1, and what a product is divided by instead."""

import gin
import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.layers.dense import dense
from mtf_models.layers.unit_scaling import us_einsum

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
