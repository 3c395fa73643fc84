"""Experts of different sizes compute what experts of just those sizes would."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.context import Context
from mtf_models.transformer.moe.heterogeneous import HeterogeneousMoE1D

KINDS = [
    {"percent_number": 0.5, "layers": 1, "width": 3},
    {"percent_number": 0.5, "layers": 2, "width": 6},
]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "mesh", [("", ""), ("batch:2", "batch:batch,experts:batch")], ids=["one", "split"]
)
def test_widths_and_depths(mesh):
    mesh = mtf.Mesh(mesh[0], layout=mesh[1])
    length = mtf.Dimension("length", 8)
    x = RNG.normal(size=(2, 8, 4)).astype(np.float32)
    named = mtf.import_tf_tensor(mesh, x, "batch:2 length:8 d_model:4")
    context = Context(
        mesh=mesh,
        mode="eval",
        variable_dtype=mtf.VariableDType(),
        length_dim=length,
        memory_length_dim=mtf.Dimension("memory_length", 8),
        d_model=named.shape.dims[-1],
        position=mtf.mtf_range(mesh, length),
        autoregressive=False,
    )
    layer = HeterogeneousMoE1D(
        num_experts=4,
        hidden_size=6,
        moe_num_layers=2,
        heterogeneous_mask_info=KINDS,
        moe_gating="switch",
        group_size=8,
        capacity_factor_eval=4.0,
    )
    store = mtf.VariableStore(mesh, seed=1)
    with store.eager():
        y = layer.call(context, named).numpy()
    w = {n: v.numpy().astype(np.float64) for n, v in store.variables.items()}
    p = np.exp(x @ w["switch_gating/kernel"])
    p /= p.sum(-1, keepdims=True)
    for at in np.ndindex(2, 8):
        expert, token = int(p[at].argmax()), x[at].astype(np.float64)
        kind, total = KINDS[expert // 2], 0.0
        for i in range(kind["layers"]):
            seen = token
            if i:
                seen = token + total
                seen = seen / np.sqrt(np.mean(seen**2) + 1e-6)
            cut = kind["width"]
            hidden = np.maximum(seen @ w[f"expert_layer_{i}/wi/kernel"][expert][:, :cut], 0)
            total = total + hidden @ w[f"expert_layer_{i}/wo/kernel"][expert][:cut]
        np.testing.assert_allclose(y[at], p[at].max() * total, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([{"percent_number": 1.0, "layers": 1}], "each kind has layers, percent_number, width"),
        ([{"percent_number": 30, "layers": 1, "width": 2}], "whole numbers"),
        ([{"percent_number": 100, "layers": 3, "width": 2}], "1 to 1 layers"),
        ([{"percent_number": 100, "layers": 1, "width": 9}], "from 1 to 6"),
    ],
)
def test_kinds_that_cannot_be(kinds, message):
    with pytest.raises(ConfigError, match=message):
        HeterogeneousMoE1D(num_experts=4, hidden_size=6, heterogeneous_mask_info=kinds)
