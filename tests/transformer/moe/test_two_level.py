"""Two levels of routing give the sum over both levels' choices, where there is room for all."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.context import Context
from mtf_models.transformer.moe.two_level import MoE2D

RNG = np.random.default_rng(0)


def best_two(x, kernel):
    p = np.exp(x @ kernel)
    p /= p.sum()
    chosen = np.argsort(-p)[:2]
    return zip(chosen, p[chosen] / p[chosen].sum(), strict=True)


@pytest.mark.parametrize(
    "placement", [("", ""), ("batch:2", "batch:batch,experts:batch")], ids=["one", "split"]
)
def test_both_levels(placement):
    mesh = mtf.Mesh(placement[0], layout=placement[1])
    length = mtf.Dimension("length", 4)
    x = RNG.normal(size=(2, 4, 4)).astype(np.float32)
    named = mtf.import_tf_tensor(mesh, x, "batch:2 length:4 d_model:4")
    context = Context(
        mesh=mesh,
        mode="eval",
        variable_dtype=mtf.VariableDType(),
        length_dim=length,
        memory_length_dim=mtf.Dimension("memory_length", 4),
        d_model=named.shape.dims[-1],
        position=mtf.mtf_range(mesh, length),
        autoregressive=False,
    )
    layer = MoE2D(
        expert_x=2,
        expert_y=3,
        hidden_size=5,
        group_size=4,
        capacity_factor_eval=4.0,
        capacity_factor_second_level=3.0,
        second_policy_eval="all",
    )
    store = mtf.VariableStore(mesh, seed=1)
    with store.eager():
        y = layer.call(context, named).numpy()
    w = {n: v.numpy().astype(np.float64) for n, v in store.variables.items()}
    assert w["wi/kernel"].shape == (3, 2, 4, 5) and w["inner_gating/kernel"].shape == (2, 4, 3)
    for at in np.ndindex(2, 4):
        token, right = x[at].astype(np.float64), 0.0
        for group, outer in best_two(token, w["top_2_gating/kernel"]):
            for expert, inner in best_two(token, w["inner_gating/kernel"][group]):
                hidden = np.maximum(token @ w["wi/kernel"][expert, group], 0)
                right = right + outer * inner * (hidden @ w["wo/kernel"][expert, group])
        np.testing.assert_allclose(y[at], right, rtol=1e-3, atol=1e-5)
    assert list(context.losses) == ["balance_loss", "inner_balance_loss"]
    assert float(context.reports["dropped"]) == 0


def test_options_that_would_be_written_over_or_make_no_slots_are_refused():
    with pytest.raises(ConfigError, match="MoE2D.num_experts is 64; it has expert_x = 2 groups"):
        MoE2D(num_experts=64, expert_x=2)
    with pytest.raises(
        ConfigError, match="capacity_factor_second_level = 0.0; give a number above"
    ):
        MoE2D(capacity_factor_second_level=0.0)


def test_slots_of_the_second_level_are_rounded_as_those_of_the_first(make_context):
    """Equal tokens go to one of two experts, which has slots for half of five."""
    x = mtf.import_tf_tensor(
        mtf.Mesh(), np.ones([1, 5, 4], np.float32), "batch:1 length:5 d_model:4"
    )
    sizes = {}
    for rounding in ("down", "up"):
        layer = MoE2D(
            expert_x=1,
            expert_y=2,
            hidden_size=5,
            moe_gating="switch",
            capacity_factor_eval=1.0,
            min_expert_capacity=1,
            capacity_rounding=rounding,
        )
        store = mtf.VariableStore(x.mesh, seed=1)
        with store.eager():
            y = layer.call(make_context(1, x.shape.dims[1], x.shape.dims[2], x.mesh), x).numpy()
        sizes[rounding] = int((np.abs(y[0]).max(-1) > 0).sum())
    assert sizes == {"down": 2, "up": 3}
