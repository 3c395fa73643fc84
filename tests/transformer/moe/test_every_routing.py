"""What holds for every routing: room, losses, padding, and any number of devices."""

import numpy as np
import plain_routing as plain
import pytest
import tensorflow as tf
from running import context, one_expert, positive, routed, tables

import mtf_models as mtf
from mtf_models.testing import ONE_DEVICE, Placement
from mtf_models.testing.check import run_op
from mtf_models.testing.outcome import differences
from mtf_models.transformer.moe.gates import Gates
from mtf_models.transformer.moe.layer import MoE1D
from mtf_models.transformer.moe.routing import ROUTINGS, RoutingOptions

GROUPS, TOKENS, EXPERTS = 3, 11, 4
LOGITS = np.random.default_rng(7).normal(size=(GROUPS, TOKENS, EXPERTS)) * 2.0
REAL = np.ones((GROUPS, TOKENS), np.float32)
REAL[1, 4:], REAL[2, ::3] = 0, 0
DEVICES = 8


def slots_of(name, capacity):
    """[group, choices, tokens] as a routing fills slots, with the same draws each time."""
    mesh, names = mtf.Mesh(), ("batch", "group", "expert_unsplit")
    logits, real = (
        mtf.import_tf_tensor(mesh, np.float32(x), list(zip(names, x.shape, strict=False)))
        for x in (LOGITS, REAL)
    )
    with mtf.random_stream(mtf.RandomStream((0, 1))):
        gates = Gates(logits, real, capacity)
        return ROUTINGS[name](gates, RoutingOptions(choices=3)).slots.numpy()


def wanted(p, real, ranks):
    """How many tokens have each expert among their best so many."""
    best = np.argsort(-p, -1, kind="stable")[real > 0][:, :ranks]
    return np.bincount(best.reshape(-1), minlength=EXPERTS)


DEMAND = {
    "switch": lambda p, real: wanted(p, real, 1),
    "switch_max": lambda p, real: wanted(p, real, 1),
    "top_2": lambda p, real: wanted(p, real, 2),
    "top_n": lambda p, real: wanted(p, real, 3),
    "expert_selection": lambda p, real: np.full(EXPERTS, int(real.sum())),
}
"""Routing to how many tokens would go to each expert, were there room."""


@pytest.mark.parametrize("name", ROUTINGS)
@pytest.mark.parametrize("capacity", [1, 2, 4, 9])
def test_an_expert_keeps_what_it_has_room_for_and_no_slot_has_two_tokens(name, capacity):
    slots, roomy = slots_of(name, capacity), slots_of(name, 3 * TOKENS)
    for group in range(GROUPS):
        kept = slots[group][slots[group] >= 0]
        assert len(set(kept)) == len(kept)
        assert (slots[group][:, REAL[group] == 0] < 0).all()
        number = np.bincount(kept // capacity, minlength=EXPERTS)
        if name == "ntlb":  # Demand is what the first choices leave.
            right = plain.ntlb(plain.softmax(LOGITS[group]), REAL[group], capacity, 3)[0]
            np.testing.assert_array_equal(slots[group], right)
        elif name == "random":  # Drawn alike, with room for all.
            drawn = roomy[group][roomy[group] >= 0] // (3 * TOKENS)
            demand = np.bincount(drawn, minlength=EXPERTS)
            assert demand.sum() == REAL[group].sum()
            np.testing.assert_array_equal(number, np.minimum(capacity, demand))
        else:
            demand = DEMAND[name](plain.softmax(LOGITS[group]), REAL[group])
            np.testing.assert_array_equal(number, np.minimum(capacity, demand))


def layer(name, **kwargs):
    return MoE1D(
        moe_gating=name,
        hidden_size=16,
        min_expert_capacity=1,
        capacity_rounding="up",
        balance_over="tokens",
        switch_policy_train="argmax",
        **{"num_experts": 4, "second_policy_train": "all", "second_policy_eval": "all"} | kwargs,
    )


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("switch", 0.6),
        ("switch_max", 0.6),
        ("top_2", 0.6),  # Second choices are all one expert too, and weigh nothing.
        ("top_n", 0.6),
        ("ntlb", 0.0),  # Two tokens each at experts 0 and 1, the last at 2.
        ("expert_selection", 0.6),  # All experts take the first two tokens of equals.
    ],
)
def test_five_tokens_that_all_want_one_of_four_experts(name, dropped):
    mixture = layer(name, capacity_factor_eval=1.0)
    y, found = routed(mixture, positive(1, 5, 8), one_expert(4), 4)
    assert mixture.capacity(5, training=False) == 2
    assert (np.abs(y[0, :2]).max(-1) > 0).all() and (y[0, 2:] == 0).all()
    assert float(found.reports["dropped"]) == pytest.approx(dropped)


@pytest.mark.parametrize("name", ROUTINGS)
def test_the_balance_loss_of_an_even_router(name):
    even = np.tile(np.eye(4, 8), (4, 1))[None]
    _, found = routed(layer(name), even, np.eye(8, 4) * 1e-6, 4, mode="train")
    assert float(found.losses["balance_loss"]) == pytest.approx(0.01, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("switch", 0.04),
        ("switch_max", 0.04),
        ("top_2", 0.04),
        ("top_n", 0.04),
        ("ntlb", 0.02),  # Of the two experts that a token tries, one has all the probability.
        ("expert_selection", 0.01),  # Each expert wants all tokens alike.
    ],
)
def test_the_balance_loss_of_a_router_that_knows_one_expert(name, loss):
    mixture = layer(name, ntlb_top_k=2)
    _, found = routed(mixture, positive(2, 8, 8), one_expert(4), 4, mode="train")
    assert float(found.losses["balance_loss"]) == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("name", ROUTINGS)
def test_the_balance_loss_alone_reaches_the_router(name):
    rng, mesh = np.random.default_rng(5), mtf.Mesh()
    x = mtf.import_tf_tensor(
        mesh, np.float32(rng.normal(size=(2, 8, 8))), "batch:2 length:8 d_model:8"
    )
    values = {n: tf.constant(a, tf.float32) for n, (_, a) in tables(4).items()}
    router = tf.constant(rng.normal(size=(8, 4)), tf.float32)
    inner = context(x, mode="train")
    with tf.GradientTape() as tape, mtf.random_stream(mtf.RandomStream((0, 1))):
        tape.watch([router, *values.values()])
        with mtf.VariableStore(mesh).serving({**values, f"{name}_gating/kernel": router}):
            layer(name, ntlb_top_k=2).call(inner, x)
        loss = inner.losses["balance_loss"].value
    by_router, *others = tape.gradient(loss, [router, *values.values()])
    assert np.abs(by_router.numpy()).max() > 1e-5
    assert others == [None] * len(values)


def run_all(placement):
    """Output, losses, share dropped, and gradients of every routing, compiled as one function."""
    rng = np.random.default_rng(9)
    rows = np.ones((DEVICES, 6), np.int32)
    rows[2, 3:], rows[5] = 0, 0
    inputs = {
        "x": (f"batch:{DEVICES} length:6 d_model:8", rng.normal(size=(DEVICES, 6, 8))),
        "rows": (f"batch:{DEVICES} length:6", rows),
        "router": ("d_model:8 expert_unsplit:8", rng.normal(size=(8, 8))),
        **{n: (s, rng.normal(size=a.shape)) for n, (s, a) in tables(8).items()},
    }

    def function(x, rows, router, wi, wo):
        results = []
        for name in ROUTINGS:
            inner = context(x, "train", rows)
            values = {f"{name}_gating/kernel": router, "wi/kernel": wi, "wo/kernel": wo}
            mixture = layer(name, num_experts=8, group_size=6, z_loss=0.1)
            with (
                mtf.VariableStore(x.mesh).serving({n: v.value for n, v in values.items()}),
                mtf.random_stream(mtf.RandomStream((0, 1))),
            ):
                y = mixture.call(inner, x)
            results += [y, *inner.losses.values(), inner.reports["dropped"]]
        return results

    by = [name for name in inputs if name != "rows"]
    return run_op(function, inputs, placement, compiled=True, differentiate=by)


@pytest.fixture(scope="module")
def alone():
    return run_all(ONE_DEVICE)


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param(2, marks=pytest.mark.slow),
        *(pytest.param(n, marks=pytest.mark.nightly) for n in (4, DEVICES)),
    ],
)
def test_the_number_of_devices_changes_nothing(devices, alone):
    found = run_all(Placement(f"batch:{devices}", "batch:batch,experts:batch"))
    assert not differences(found, alone, rtol=1e-5, atol=1e-6)
