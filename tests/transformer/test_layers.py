"""Single layers, run eagerly without a model, equal NumPy."""

import dataclasses

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.transformer.attention import EncDecAttention, SelfAttention
from mtf_models.transformer.context import Context
from mtf_models.transformer.feed_forward import DenseReluDense

LENGTH, MEMORY = mtf.Dimension("length", 3), mtf.Dimension("memory_length", 3)
D_MODEL = mtf.Dimension("d_model", 8)
X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32)
ENCODED = np.random.default_rng(1).normal(size=(2, 4, 8)).astype(np.float32)


def context(mesh, **kwargs):
    return Context(
        mesh=mesh,
        mode="eval",
        variable_dtype=mtf.VariableDType(),
        length_dim=LENGTH,
        memory_length_dim=MEMORY,
        d_model=D_MODEL,
        position=mtf.mtf_range(mesh, LENGTH),
        autoregressive=kwargs.pop("autoregressive", False),
        **kwargs,
    )


@pytest.fixture(params=["one device", "split"])
def mesh(request):
    if request.param == "one device":
        return mtf.Mesh()
    return mtf.Mesh("batch:2;model:2", layout="batch:batch,heads:model,d_ff:model")


@pytest.fixture
def store(mesh):
    store = mtf.VariableStore(mesh, seed=3)
    with store.eager():
        yield store


def run(layer, mesh, store, **kwargs):
    """The result and the values of the variables, which are made as they are asked for."""
    x = mtf.import_tf_tensor(mesh, X, [mtf.Dimension("batch", 2), LENGTH, D_MODEL])
    y = layer.call(context(mesh, **kwargs), x)
    assert y.shape == x.shape
    return y.numpy(), {n: v.numpy().astype(np.float64) for n, v in store.variables.items()}


def attend(q, k, v, bias=0.0):
    logits = np.einsum("blhd,bmhd->bhlm", q, k) + bias
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.einsum("bhlm,bmhd->blhd", weights / weights.sum(axis=-1, keepdims=True), v)


def heads(x, kernel):
    return np.einsum("bld,dhk->blhk", x, kernel.reshape(8, 2, 4))


@pytest.mark.parametrize("autoregressive", [False, True])
def test_self_attention(mesh, store, autoregressive):
    layer = SelfAttention(num_heads=2, key_value_size=4, relative_attention_type="bias")
    y, w = run(layer, mesh, store, autoregressive=autoregressive)
    back = np.arange(3)[:, None] - np.arange(3)
    bucket = np.maximum(back, 0) if autoregressive else np.abs(back) + 16 * (back < 0)
    bias = w["relative_attention_bias"][:, bucket]
    if autoregressive:
        bias = np.where(back < 0, -np.inf, bias)
    right = attend(*(heads(X, w[name]) for name in "qkv"), bias)
    np.testing.assert_allclose(y, right.reshape(2, 3, 8) @ w["o"], rtol=1e-4, atol=1e-5)


def test_the_scale_is_applied_where_it_is_not_folded_into_the_queries(mesh, store):
    layer = SelfAttention(num_heads=2, key_value_size=4, fold_scaling_into_initializer=False)
    y, w = run(layer, mesh, store)
    right = attend(heads(X, w["q"]) / 2, heads(X, w["k"]), heads(X, w["v"]))
    np.testing.assert_allclose(y, right.reshape(2, 3, 8) @ w["o"], rtol=1e-4, atol=1e-5)


def test_attention_to_an_encoder(mesh, store):
    layer = EncDecAttention(num_heads=2, key_value_size=4)
    batch, memory = mtf.Dimension("batch", 2), mtf.Dimension("memory_length", 4)
    own = np.array([[1, 1, 1], [1, 1, 0]], np.int32)
    others = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)
    ids = {
        "sequence_id": mtf.import_tf_tensor(mesh, own, [batch, LENGTH]),
        "encoder_sequence_id": mtf.import_tf_tensor(mesh, others, [batch, memory]),
    }
    encoded = mtf.import_tf_tensor(mesh, ENCODED, [batch, memory, D_MODEL])
    y, w = run(layer, mesh, store, encoder_output=encoded, **ids)
    k, v = (heads(ENCODED, w[name]) for name in "kv")
    right = attend(heads(X, w["q"]), k, v).reshape(2, 3, 8) @ w["o"]
    np.testing.assert_allclose(y[0], right[0], rtol=1e-4, atol=1e-5)
    right = attend(heads(X, w["q"]), k[:, :2], v[:, :2]).reshape(2, 3, 8) @ w["o"]
    np.testing.assert_allclose(y[1, :2], right[1, :2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use_bias", [False, True])
def test_feed_forward(mesh, store, use_bias):
    y, w = run(DenseReluDense(hidden_size=16, use_bias=use_bias), mesh, store)
    h = np.maximum(X @ w["wi/kernel"] + w.get("wi/bias", 0), 0)
    right = h @ w["wo/kernel"] + w.get("wo/bias", 0)
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_dropout_of_hidden_units_is_the_same_at_every_position():
    mesh, store = mtf.Mesh(), mtf.VariableStore(mtf.Mesh(), seed=3)
    layer = DenseReluDense(hidden_size=64, dropout_rate=0.5)
    wi = np.zeros([8, 64], np.float32)
    wi[0] = 1.0
    x = mtf.ones(mesh, [mtf.Dimension("batch", 4), LENGTH, D_MODEL])
    training = dataclasses.replace(context(mesh), mode="train")
    table = {"wi/kernel": wi, "wo/kernel": np.ones([64, 8], np.float32) / 64}
    shapes = {"wi/kernel": "d_model:8 d_ff:64", "wo/kernel": "d_ff:64 d_model:8"}
    values = {n: mtf.import_tf_tensor(mesh, a, shapes[n]).value for n, a in table.items()}
    with store.serving(values), mtf.random_stream(mtf.RandomStream((0, 1))):
        y = layer.call(training, x).numpy()
    assert (y == y[:, :1, :1]).all()
    # Each kept unit counts twice: the mean of 64 times 0 or 2.
    kept = y[:, 0, 0] * 32
    np.testing.assert_allclose(kept, kept.round(), atol=1e-4)
    assert 10 < kept.min() and kept.max() < 54 and np.ptp(kept) > 0
