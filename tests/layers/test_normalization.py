"""RMS normalisation equals NumPy in float64."""

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.layers.normalization import rms_norm
from mtf_models.testing import Placement, check_op

D = mtf.Dimension("d_model", 8)


def reference(x, scale, epsilon):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + epsilon) * scale


def test_value_and_gradient():
    scale = np.linspace(0.5, 2.0, 8)

    def call(x):
        store = mtf.VariableStore(x.mesh)
        with store.serving({"norm/scale": mtf.import_tf_tensor(x.mesh, scale, "d_model:8").value}):
            return rms_norm(x, D, mtf.VariableDType(), epsilon=0.01, name="norm")

    array = np.random.default_rng(0).normal(size=(4, 8))
    check_op(
        call,
        {"x": ("batch:4 d_model:8", array)},
        lambda x: reference(x, scale, 0.01),
        placements=[Placement("", ""), Placement("model:4", "d_model:model")],
    )


def test_scales_are_one_at_first():
    mesh = mtf.Mesh()
    store = mtf.VariableStore(mesh)
    array = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
    with store.eager():
        y = rms_norm(mtf.import_tf_tensor(mesh, array, "batch:2 d_model:8"), D, mtf.VariableDType())
    assert store.variables["rms_norm/scale"].numpy().tolist() == [1.0] * 8
    np.testing.assert_allclose(y, reference(array, 1.0, 1e-6), rtol=1e-5)


def test_statistics_are_float32():
    # The squares, 1 and 255 times 2^-8, add up to 2 - 2^-8, and to 1 in bfloat16.
    mesh, wide = mtf.Mesh(), mtf.Dimension("d_model", 256)
    array = np.full([256], 2.0**-4, np.float32)
    array[0] = 1.0
    x = mtf.to_bfloat16(mtf.import_tf_tensor(mesh, array, [wide]))
    dtype = mtf.VariableDType(activation="bfloat16")
    with mtf.VariableStore(mesh).eager():
        y = mtf.to_float(rms_norm(x, wide, dtype)).numpy()
    np.testing.assert_allclose(y, reference(array, 1.0, 1e-6), rtol=2**-8)
