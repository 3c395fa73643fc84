"""Norms equal NumPy in float64."""

import numpy as np
import pytest

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError
from mtf_models.layers.normalization import layer_norm, rms_norm, scale_norm
from mtf_models.testing import Placement, check_op

D = mtf.Dimension("d_model", 8)
SCALE, BIAS = np.linspace(0.5, 2.0, 8), np.linspace(-1.0, 1.0, 8)


def rms_reference(x, scale, epsilon, channels=8):
    mean = np.mean(x[..., :channels] ** 2, axis=-1, keepdims=True)
    return x / np.sqrt(mean + epsilon) * scale


def layer_reference(x, epsilon):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + epsilon) * SCALE + BIAS


def normalised(norm, variables, **kwargs):
    """The norm as a function of x alone, its variables given."""

    def call(x):
        table = {
            f"norm/{name}": mtf.import_tf_tensor(x.mesh, value, [D][: np.ndim(value)]).value
            for name, value in variables.items()
        }
        with mtf.VariableStore(x.mesh).serving(table):
            return norm(x, D, mtf.VariableDType(), epsilon=0.01, name="norm", **kwargs)

    return call


LAYER_NORM = {"layer_norm/layer_norm_scale": SCALE, "layer_norm/layer_norm_bias": BIAS}
CASES = {
    "rms_norm": (
        normalised(rms_norm, {"scale": SCALE}),
        lambda x: rms_reference(x, SCALE, 0.01),
    ),
    "rms_norm of a part": (
        normalised(rms_norm, {"scale": SCALE}, percentage=45.0),
        lambda x: rms_reference(x, SCALE, 0.01, channels=3),
    ),
    "scale_norm": (
        normalised(scale_norm, {"scale": np.float64(1.5)}),
        lambda x: rms_reference(x, 1.5, 0.01),
    ),
    "layer_norm": (normalised(layer_norm, LAYER_NORM), lambda x: layer_reference(x, 0.01)),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name):
    call, reference = CASES[name]
    array = np.random.default_rng(0).normal(size=(4, 8))
    check_op(
        call,
        {"x": ("batch:4 d_model:8", array)},
        reference,
        placements=[Placement("", ""), Placement("model:4", "d_model:model")],
    )


@pytest.mark.parametrize(
    "norm, reference",
    [
        (rms_norm, lambda x: rms_reference(x, 1.0, 1e-6)),
        (scale_norm, lambda x: rms_reference(x, 1.0, 1e-6)),
        (layer_norm, lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)),
    ],
)
def test_initial_values_do_not_scale(norm, reference):
    mesh = mtf.Mesh()
    store = mtf.VariableStore(mesh)
    array = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
    with store.eager():
        y = norm(mtf.import_tf_tensor(mesh, array, "batch:2 d_model:8"), D, mtf.VariableDType())
    np.testing.assert_allclose(y, reference(array), rtol=1e-4)


@pytest.mark.parametrize(
    "norm, option, reference",
    [
        (rms_norm, "use_scale", lambda x: rms_reference(x, 1.0, 1e-6)),
        (
            layer_norm,
            "use_bias",
            lambda x: 2 * (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True),
        ),
    ],
)
def test_norms_with_fewer_variables(norm, option, reference):
    mesh = mtf.Mesh()
    store = mtf.VariableStore(mesh)
    array = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
    x = mtf.import_tf_tensor(mesh, array, "batch:2 d_model:8")
    with store.eager():
        norm(x, D, mtf.VariableDType(), **{option: False})
        for variable in store.variables.values():
            variable.assign(np.full([8], 2.0, np.float32))
    with store.eager():
        y = norm(x, D, mtf.VariableDType(), **{option: False})
    assert len(store.variables) == (norm is layer_norm)
    np.testing.assert_allclose(y, reference(array), rtol=1e-4)


def test_statistics_are_float32():
    # The squares, 1 and 255 times 2^-8, add up to 2 - 2^-8, and to 1 in bfloat16.
    mesh, wide = mtf.Mesh(), mtf.Dimension("d_model", 256)
    array = np.full([256], 2.0**-4, np.float32)
    array[0] = 1.0
    x = mtf.to_bfloat16(mtf.import_tf_tensor(mesh, array, [wide]))
    dtype = mtf.VariableDType(activation="bfloat16")
    with mtf.VariableStore(mesh).eager():
        y = mtf.to_float(rms_norm(x, wide, dtype)).numpy()
    np.testing.assert_allclose(y, rms_reference(array, 1.0, 1e-6, channels=256), rtol=2**-8)


@pytest.mark.parametrize("percentage", [0.0, -5.0, 101.0])
def test_a_part_that_is_none(percentage):
    x = mtf.ones(mtf.Mesh(), [D])
    with mtf.VariableStore(x.mesh).eager(), pytest.raises(ConfigError, match="at most 100"):
        rms_norm(x, D, mtf.VariableDType(), percentage=percentage)
