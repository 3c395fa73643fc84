"""Local attention in blocks equals NumPy's with a band of visible positions."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.transformer.context import Context
from mtf_models.transformer.local_attention import LocalSelfAttention

SIZE = 300  # three blocks of 128, the last one padded, or two parts of two blocks each
X = np.random.default_rng(0).normal(size=(2, SIZE, 8)).astype(np.float32)
SEQUENCE = np.repeat([[1, 2], [1, 0]], [250, 50], axis=1).astype(np.int32)


@pytest.mark.parametrize("mesh", ["", "length:2;model:2"])
@pytest.mark.parametrize("autoregressive", [True, False])
@pytest.mark.parametrize("radius", [3, 140])
def test_a_position_sees_those_within_the_radius(mesh, autoregressive, radius):
    mesh = mtf.Mesh(mesh, layout="length:length,heads:model")
    batch, length = mtf.Dimension("batch", 2), mtf.Dimension("length", SIZE)
    d_model = mtf.Dimension("d_model", 8)
    layer = LocalSelfAttention(radius, num_heads=2, key_value_size=4)
    store = mtf.VariableStore(mesh, seed=3)
    with store.eager():
        context = Context(
            mesh=mesh,
            mode="eval",
            variable_dtype=mtf.VariableDType(),
            length_dim=length,
            memory_length_dim=mtf.Dimension("memory_length", SIZE),
            d_model=d_model,
            position=mtf.mtf_range(mesh, length),
            autoregressive=autoregressive,
            sequence_id=mtf.import_tf_tensor(mesh, SEQUENCE, [batch, length]),
        )
        y = layer.call(context, mtf.import_tf_tensor(mesh, X, [batch, length, d_model])).numpy()
    w = {n: v.numpy().astype(np.float64) for n, v in store.variables.items()}
    q, k, v = ((X @ w[name]).reshape(2, SIZE, 2, 4) for name in "qkv")
    distance = np.arange(SIZE) - np.arange(SIZE)[:, None]
    seen = (distance > -radius) & (distance <= (0 if autoregressive else radius))
    seen = seen & (SEQUENCE[:, :, None] == SEQUENCE[:, None])
    logits = np.where(seen[:, None], np.einsum("blhd,bmhd->bhlm", q, k), -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    right = np.einsum("bhlm,bmhd->blhd", weights, v).reshape(2, SIZE, 8) @ w["o"]
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)
