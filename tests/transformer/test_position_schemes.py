"""Positions in attention other than by buckets: NumPy's numbers, from the papers."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.transformer.alibi import slopes
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.context import Context

LENGTH, MEMORY = mtf.Dimension("length", 5), mtf.Dimension("memory_length", 5)
D_MODEL = mtf.Dimension("d_model", 8)
X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)


@pytest.fixture(params=["", "batch:2;model:2"])
def mesh(request):
    return mtf.Mesh(request.param, layout="batch:batch,heads:model")


def run(mesh, layer, mode="eval", autoregressive=True):
    """The result, the values of the variables and the auxiliary losses."""
    context = Context(
        mesh=mesh,
        mode=mode,
        variable_dtype=mtf.VariableDType(),
        length_dim=LENGTH,
        memory_length_dim=MEMORY,
        d_model=D_MODEL,
        position=mtf.mtf_range(mesh, LENGTH),
        autoregressive=autoregressive,
    )
    store = mtf.VariableStore(mesh, seed=3)
    with store.eager():
        x = mtf.import_tf_tensor(mesh, X, [mtf.Dimension("batch", 2), LENGTH, D_MODEL])
        y = layer.call(context, x).numpy()
    return y, {n: v.numpy() for n, v in store.variables.items()}, context.losses


def softmax(logits, axis=-1):
    weights = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def qkv(w, heads, groups):
    q = (X @ w["q"]).reshape(2, 5, heads, 4)
    k, v = (
        np.repeat((X @ w[n]).reshape(2, 5, groups, 4), heads // groups, axis=2) for n in ("k", "v")
    )
    return q, k, v


def output(w, weights, v):
    y = np.einsum("bhlm,bmhd->blhd", weights, v)
    return y.reshape(2, 5, -1) @ w["o"]


FUTURE = np.where(np.arange(5)[:, None] < np.arange(5), -np.inf, 0.0)


@pytest.mark.parametrize("groups", [4, 2, 1])
def test_rotary_positions_turn_pairs_of_a_head(mesh, groups):
    memory_heads = 0 if groups == 4 else groups
    layer = SelfAttention(4, memory_heads, 4, relative_attention_type="rotary")
    y, w, _ = run(mesh, layer)
    q, k, v = qkv(w, 4, groups)
    # Su et al. 2021, equation 34, in complex numbers: e^{i m theta} for each pair.
    turn = np.exp(1j * np.outer(np.arange(5), 10000.0 ** (-np.arange(2) / 2)))[None, :, None]
    q, k = ((x[..., :2] + 1j * x[..., 2:]) * turn for x in (q, k))
    logits = np.einsum("blhd,bmhd->bhlm", q, k.conj()).real
    right = output(w, softmax(logits + FUTURE), v)
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory_heads", [0, 2])
def test_alibi_takes_a_slope_of_the_distance_from_the_logits(mesh, memory_heads):
    layer = SelfAttention(4, memory_heads, 4, relative_attention_type="alibi")
    y, w, _ = run(mesh, layer)
    q, k, v = qkv(w, 4, memory_heads or 4)
    back = np.arange(5)[:, None] - np.arange(5)
    bias = -np.array([2**-2, 2**-4, 2**-6, 2**-8])[:, None, None] * back
    logits = np.einsum("blhd,bmhd->bhlm", q, k) + bias
    np.testing.assert_allclose(y, output(w, softmax(logits + FUTURE), v), rtol=1e-4, atol=1e-5)


def test_slopes_of_a_number_of_heads_that_is_no_power_of_two():
    # Those of 8 heads, then every second one of those of 16: the released code of the paper.
    right = [2.0**-i for i in range(1, 9)] + [2.0 ** -(i + 0.5) for i in range(4)]
    assert slopes(12) == pytest.approx(right)


def test_hybrid_attention_mixes_both_normalisations(mesh):
    layer = SelfAttention(2, key_value_size=4, attention_func="hybrid")
    y, w, _ = run(mesh, layer, autoregressive=False)
    assert w["doubly_coeff"] == 0.5
    q, k, v = qkv(w, 2, 2)
    logits = np.einsum("blhd,bmhd->bhlm", q, k)
    shares = softmax(logits, axis=2)
    doubly = shares / shares.sum(axis=3, keepdims=True)
    right = output(w, (softmax(logits) + doubly) / 2, v)
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_the_z_loss_is_the_mean_squared_log_of_the_partition_function(mesh):
    layer = SelfAttention(2, key_value_size=4, z_loss_coeff=0.1)
    _, w, losses = run(mesh, layer, mode="train")
    q, k, _ = qkv(w, 2, 2)
    logits = np.einsum("blhd,bmhd->bhlm", q, k) + FUTURE
    right = 0.1 * np.mean(np.log(np.exp(logits).sum(-1)) ** 2)
    assert float(losses["attention_z_loss"]) == pytest.approx(right, rel=1e-4)
    assert run(mesh, layer, mode="eval")[2] == {}
