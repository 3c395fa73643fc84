"""A training step in micro-batches (its values: conformance, fixtures/ops)."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ShapeError

BATCH, X, Y = mtf.Dimension("batch", 8), mtf.Dimension("x", 4), mtf.Dimension("y", 4)


def model(features):
    x = features["x"]
    w = mtf.get_variable(x.mesh, "w", [X, Y])
    h = mtf.einsum([x, w], reduced_dims=[X])
    return {"loss": mtf.reduce_sum(mtf.square(h)), "h": h}


@pytest.mark.parametrize("mesh", [("", ""), ("r:2;c:2", "batch:r,x:c")])
def test_gradients_are_those_of_the_whole_batch(mesh):
    mesh = mtf.Mesh(*mesh)
    array = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    store = mtf.VariableStore(mesh)
    with store.eager():
        x = mtf.import_tf_tensor(mesh, array, [BATCH, X])
        grads, outputs = mtf.serialize_training_step({"x": x}, model, BATCH, 4)
    w = store.variables["w"].numpy()
    h = array @ w
    np.testing.assert_allclose(outputs["h"].numpy(), h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(float(outputs["loss"]), np.square(h).sum(), rtol=1e-4)
    np.testing.assert_allclose(grads["w"].numpy(), 2 * array.T @ h, rtol=1e-4, atol=1e-4)


def run(model_fn):
    mesh = mtf.Mesh()
    with mtf.VariableStore(mesh).eager():
        return mtf.serialize_training_step({"x": mtf.ones(mesh, [BATCH, X])}, model_fn, BATCH, 2)


@pytest.mark.parametrize("found", [{}, {"loss": None}, None])
def test_a_loss_is_needed(found):
    with pytest.raises(ShapeError, match='scalar "loss"'):
        run(lambda features: found)


def test_a_loss_is_a_scalar():
    with pytest.raises(ShapeError, match="a loss of Shape"):
        run(lambda features: {"loss": features["x"]})


def test_variables_without_a_gradient_are_listed():
    def unused(features):
        for name in ("u", "v"):
            mtf.get_variable(features["x"].mesh, name, [X])
        return model(features)

    with pytest.raises(ShapeError, match="does not depend on u, v;"):
        run(unused)


def test_a_store_is_needed():
    with pytest.raises(ShapeError, match="needs a store"):
        mtf.serialize_training_step({"x": mtf.ones(mtf.Mesh(), [BATCH, X])}, model, BATCH, 2)
