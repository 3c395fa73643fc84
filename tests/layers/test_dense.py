"""Dense maps equal NumPy; activations equal their formulas; variables have the original's names."""

import math

import numpy as np
import pytest

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError
from mtf_models.layers.activation import ACTIVATIONS, activation_function
from mtf_models.layers.dense import dense, dense_product

X = mtf.Dimension("d_model", 3)
Y = mtf.Dimension("d_ff", 4)


@pytest.fixture
def x():
    array = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    return mtf.import_tf_tensor(mtf.Mesh(), array, "batch:2 d_model:3")


@pytest.fixture
def store(x):
    store = mtf.VariableStore(x.mesh, seed=1)
    with store.eager():
        yield store


def weights(store):
    return {name: variable.numpy() for name, variable in store.variables.items()}


def test_a_kernel_and_a_bias(x):
    store = mtf.VariableStore(x.mesh, seed=1)
    with store.eager():
        dense(x, [Y], name="layer")
    store.variables["layer/bias"].assign(np.arange(4.0))
    with store.eager():
        y = dense(x, [Y], name="layer", activation="relu")
    w = weights(store)
    assert {name: value.shape for name, value in w.items()} == {
        "layer/kernel": (3, 4),
        "layer/bias": (4,),
    }
    right = np.maximum(x.numpy() @ w["layer/kernel"] + np.arange(4.0), 0)
    np.testing.assert_allclose(y, right, rtol=1e-5)


def test_several_dimensions_at_once(x, store):
    heads = [mtf.Dimension("heads", 2), mtf.Dimension("d_kv", 5)]
    y = dense(x, heads, reduced_dims=list(x.shape), use_bias=False)
    assert y.shape.dimension_names == ["heads", "d_kv"]
    right = np.einsum("bd,bdhk->hk", x.numpy(), weights(store)["dense/kernel"])
    np.testing.assert_allclose(y, right, rtol=1e-5)


def test_experts_have_kernels_of_their_own(x, store):
    y = dense(x, [Y], expert_dims=[x.shape.dims[0]], name="wi")
    w = weights(store)
    assert w["wi/kernel"].shape == (2, 3, 4)
    assert w["wi/bias"].shape == (2, 4)
    np.testing.assert_allclose(y, np.einsum("bd,bdf->bf", x.numpy(), w["wi/kernel"]), rtol=1e-5)


def test_the_fan_in_of_an_expert_is_its_own(store, x):
    wide = mtf.zeros(x.mesh, "experts:8 d_model:512")
    experts, d_model = wide.shape.dims
    dense(wide, [mtf.Dimension("d_ff", 64)], [d_model], [experts], name="wi")
    # Truncated at two standard deviations, not corrected for it.
    assert weights(store)["wi/kernel"].std() == pytest.approx(0.87962566 * 512**-0.5, rel=0.01)


def test_a_gated_unit_is_a_product_of_two(x, store):
    y = dense_product(x, [Y], ["swish", "linear"], name="wi")
    w = weights(store)
    assert list(w) == ["wi_0/kernel", "wi_1/kernel"]
    gate = x.numpy() @ w["wi_0/kernel"]
    right = gate / (1 + np.exp(-gate)) * (x.numpy() @ w["wi_1/kernel"])
    np.testing.assert_allclose(y, right, rtol=1e-5)


@pytest.mark.parametrize("activation", ["relu", ["relu"]])
def test_a_single_activation_has_no_number(x, store, activation):
    dense_product(x, [Y], activation, use_bias=True, name="wi")
    assert list(weights(store)) == ["wi/kernel", "wi/bias"]


FORMULAS = {
    "gelu": lambda x: 0.5 * x * (1 + math.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "gelu_exact": lambda x: 0.5 * x * (1 + math.erf(x / 2**0.5)),
    "relu": lambda x: max(x, 0.0),
    "squared_relu": lambda x: max(x, 0.0) ** 2,
    "swish": lambda x: x / (1 + math.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "selu": lambda x: 1.05070098 * (x if x > 0 else 1.67326324 * math.expm1(x)),
    "leaky_relu": lambda x: x if x > 0 else 0.2 * x,
    "tanh": math.tanh,
    "sin": math.sin,
    "cos": math.cos,
    "exp": math.exp,
    "abs": abs,
    "square": lambda x: x * x,
    "linear": lambda x: x,
    "identity": lambda x: x,
}


def test_every_activation_has_its_formula():
    assert sorted(ACTIVATIONS) == sorted(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
def test_activations(name):
    points = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0], np.float32)
    found = activation_function(name)(mtf.import_tf_tensor(mtf.Mesh(), points, "x:6"))
    right = [FORMULAS[name](x) for x in points.tolist()]
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_gelu_is_the_approximation_by_tanh():
    points = np.array([-2.0, -1.0, 1.0, 2.0], np.float32)
    found = activation_function("gelu")(mtf.import_tf_tensor(mtf.Mesh(), points, "x:4"))
    np.testing.assert_allclose(found, [-0.045402, -0.158808, 0.841192, 1.954598], atol=1e-6)


def test_an_activation_may_be_a_function_or_none():
    assert activation_function(mtf.tanh) is mtf.tanh
    assert activation_function(None) is mtf.linear


@pytest.mark.parametrize("name", ["gleu", "einsum", "Mesh"])
def test_other_names_are_refused(name):
    with pytest.raises(ConfigError, match=f"No activation is called '{name}'"):
        activation_function(name)


def test_a_misspelt_activation_is_told_its_nearest():
    with pytest.raises(ConfigError, match="did you mean gelu"):
        activation_function("gleu")
