"""Attention equals plain NumPy in float64, on one device and split, with its gradient."""

import functools

import numpy as np
import pytest

import mtf_models.mesh as mtf
from mtf_models.layers.attention import MASKED, attention
from mtf_models.testing import Placement, check_op

BATCH, LENGTH, MEMORY, HEADS, D_KV = 4, 3, 4, 2, 3
PLACEMENTS = [
    Placement("", ""),
    Placement("batch:4;model:2", "batch:batch,heads:model"),
    Placement("model:2", "memory_length:model"),
]
QUERY = f"batch:{BATCH} length:{LENGTH} heads:{HEADS} d_kv:{D_KV}"
KEY = f"batch:{BATCH} memory_length:{MEMORY} heads:{HEADS} d_kv:{D_KV}"
BIAS = f"heads:{HEADS} length:{LENGTH} memory_length:{MEMORY}"
MEMORY_DIM, KEY_DIM = mtf.Dimension("memory_length", MEMORY), mtf.Dimension("d_kv", D_KV)


def reference(q, k, v, bias=0.0, extra_logit=None):
    """Softmax over m of q k, times v."""
    logits = np.einsum("blhd,bmhd->bhlm", q, k) + bias
    weights = np.exp(logits)
    extra = 0.0 if extra_logit is None else np.exp(extra_logit)
    weights = weights / (np.sum(weights, axis=-1, keepdims=True) + extra)
    return np.einsum("bhlm,bmhd->blhd", weights, v)


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    shapes = {"q": QUERY, "k": KEY, "v": KEY, "bias": BIAS}
    return {n: (s, rng.normal(size=mtf.Shape(s).to_integer_list)) for n, s in shapes.items()}


def call(q, k, v, bias=None, **kwargs):
    return attention(q, k, v, MEMORY_DIM, KEY_DIM, KEY_DIM, bias, **kwargs)


def test_with_bias(inputs):
    check_op(call, inputs, reference, placements=PLACEMENTS)


@pytest.mark.parametrize("extra_logit", [0.0, 1.5])
def test_an_extra_logit_lets_attention_go_nowhere(inputs, extra_logit):
    check_op(
        functools.partial(call, extra_logit=extra_logit),
        inputs,
        functools.partial(reference, extra_logit=extra_logit),
        placements=PLACEMENTS[:2],
    )


def test_one_memory_head_serves_all_queries(inputs):
    shape = KEY.replace(f" heads:{HEADS}", "")
    for name in "kv":
        inputs[name] = (shape, inputs[name][1][:, :, 0])

    def shared(q, k, v, bias):
        return reference(q, *(np.repeat(x[:, :, None], HEADS, axis=2) for x in (k, v)), bias)

    check_op(call, inputs, shared, placements=PLACEMENTS[:1])


def test_masked_positions_are_not_seen(inputs):
    mesh = mtf.Mesh()
    q, k, v, _ = (mtf.import_tf_tensor(mesh, x, s) for s, x in inputs.values())
    mask = np.zeros([LENGTH, MEMORY])
    mask[:, 2:] = MASKED
    bias = mtf.import_tf_tensor(mesh, mask, mtf.Shape(BIAS) - mtf.Dimension("heads", HEADS))
    arrays = [x[1] for x in inputs.values()]
    right = reference(arrays[0], arrays[1][:, :2], arrays[2][:, :2])
    np.testing.assert_allclose(call(q, k, v, bias), right, rtol=1e-5)


def test_logits_are_float32_unless_told():
    # The logits are 301.5 and 303.75, in bfloat16 302 and 304 however ties are rounded.
    mesh = mtf.Mesh()

    def narrow(array, shape):
        return mtf.to_bfloat16(mtf.import_tf_tensor(mesh, np.array(array, np.float32), shape))

    q = narrow([[9.0]], "length:1 d:1")
    k = narrow([[33.5], [33.75]], "memory_length:2 d:1")
    v = narrow([[0.0], [1.0]], "memory_length:2 d:1")
    dims = [*k.shape, v.shape.dims[1]]
    y = attention(q, k, v, *dims).numpy().item()
    assert y == pytest.approx(1 / (1 + np.exp(-2.25)), abs=4e-3)
    y = attention(q, k, v, *dims, float32_logits=False).numpy().item()
    assert y == pytest.approx(1 / (1 + np.exp(-2)), abs=4e-3)


@pytest.mark.parametrize("name", [True, False])
def test_dropout_is_the_same_for_all_queries_and_keeps_the_mean(name):
    mesh = mtf.Mesh()
    many = mtf.Dimension("memory_length", 4096)
    shape = mtf.Shape([mtf.Dimension("length", 3), mtf.Dimension("d_kv", 1)])
    q = mtf.zeros(mesh, shape)
    k = mtf.zeros(mesh, mtf.Shape([many, shape.dims[1]]))
    with mtf.random_stream(mtf.RandomStream((1, 2))):
        y = attention(
            q,
            k,
            k + 1.0,
            many,
            shape.dims[1],
            shape.dims[1],
            is_training=True,
            dropout_rate=0.25,
            dropout_broadcast_dims=["length" if name else shape.dims[0]],
        ).numpy()
    assert np.ptp(y) == 0
    assert y[0, 0] == pytest.approx(1.0, abs=4 * (1 / 3 / 4096) ** 0.5)
