"""Each routing gives tokens the slots and weights that plain Python gives them, split or not."""

import numpy as np
import plain_routing as plain
import pytest

import mtf_models as mtf
from mtf_models.testing import ONE_DEVICE, Placement, check_op
from mtf_models.transformer.moe.gates import Gates
from mtf_models.transformer.moe.routing import ROUTINGS, RoutingOptions

GROUPS, TOKENS, EXPERTS, CAPACITY = 4, 7, 4, 2
LOGITS = np.random.default_rng(3).normal(size=(GROUPS, TOKENS, EXPERTS)) * 1.5
REAL = np.ones((GROUPS, TOKENS), np.float32)
REAL[1, 5:], REAL[2, ::2], REAL[3] = 0, 0, 0
INPUTS = {
    "logits": (f"batch:{GROUPS} group:{TOKENS} expert_unsplit:{EXPERTS}", LOGITS),
    "real": (f"batch:{GROUPS} group:{TOKENS}", REAL),
}
PLACEMENTS = [ONE_DEVICE, Placement("batch:4", "batch:batch,experts:batch")]


def first(p):
    return np.eye(EXPERTS)[p.argmax(-1)]


def wanted_of_ntlb(p):
    return np.mean([np.eye(EXPERTS)[np.argsort(-p, -1)[:, k]] for k in range(3)], 0)


PLAIN = {
    "switch": (plain.switch, first),
    "switch_max": (plain.switch_max, first),
    "top_2": (lambda *a: plain.top(*a, 2), first),
    "top_n": (lambda *a: plain.top(*a, 3), first),
    "ntlb": (lambda *a: plain.ntlb(*a, 3), wanted_of_ntlb),
}


def route(name):
    def run(logits, real):
        routes = ROUTINGS[name](Gates(logits, real, CAPACITY), RoutingOptions(choices=3))
        return [routes.slots, routes.weights, routes.balance]

    return run


@pytest.mark.parametrize("name", PLAIN)
def test_routings_of_tokens(name):
    by_token, wants = PLAIN[name]

    def reference(logits, real):
        p = plain.softmax(logits)
        found = [by_token(p[g], real[g], CAPACITY) for g in range(GROUPS)]
        balances = [plain.balance(p[g], wants(p[g]), real[g]) for g in range(GROUPS)]
        slots, weights = (np.stack(x) for x in zip(*found, strict=True))
        return [slots, weights, np.average(balances, weights=real.sum(1))]

    check_op(
        route(name), INPUTS, reference, placements=PLACEMENTS, differentiate=["logits"], rtol=1e-3
    )


def test_experts_select_tokens():
    def reference(logits, real):
        found = [plain.expert_selection(logits[g], real[g], CAPACITY) for g in range(GROUPS)]
        slots, weights = (np.stack(x) for x in zip(*found, strict=True))
        n = real.sum(1)
        p = plain.softmax(np.where(real[:, :, None] > 0, logits, -1e9), 1)
        squares = [n[g] * np.square(p[g]).sum(0).mean() if n[g] else 0 for g in range(GROUPS)]
        return [slots, weights, np.average(squares, weights=n)]

    check_op(
        route("expert_selection"),
        INPUTS,
        reference,
        placements=PLACEMENTS,
        differentiate=["logits"],
        rtol=1e-3,
    )


def routes(name, logits, options=None, capacity=9):
    mesh = mtf.Mesh()
    names = ("batch", "group", "expert_unsplit")
    named = mtf.import_tf_tensor(
        mesh, np.float32(logits), list(zip(names, np.shape(logits), strict=True))
    )
    with mtf.random_stream(mtf.RandomStream((0, 1))):
        found = ROUTINGS[name](Gates(named, None, capacity), options or RoutingOptions())
        return found.slots.numpy(), found.weights.numpy(), float(found.balance)


@pytest.mark.parametrize(
    ("policy", "threshold", "kept"),
    [("all", 0.2, 4), ("none", 0.2, 0), ("threshold", 0.3, 2), ("random", 1e-9, 4)],
)
def test_policies_of_second_choices(policy, threshold, kept):
    # The second of two choices has weights .1, .2, .4 and .45.
    second = np.array([0.1, 0.2, 0.4, 0.45])
    logits = np.log(np.stack([1 - second, second, np.full(4, 1e-9)], -1))[None]
    options = RoutingOptions(second_policy=policy, second_threshold=threshold)
    slots, weights, _ = routes("top_2", logits, options)
    assert (slots[0, 0] >= 0).all() and (slots[0, 1] >= 0).sum() == kept
    np.testing.assert_allclose(weights[0, 1], second, rtol=1e-5)


def test_random_second_choices_are_as_likely_as_their_weight_over_the_threshold():
    logits = np.broadcast_to(np.log([0.9, 0.1]), (1, 4000, 2))
    options = RoutingOptions(second_policy="random", second_threshold=0.2)
    slots, _, _ = routes("top_2", logits, options, capacity=4000)
    assert (slots[0, 1] >= 0).mean() == pytest.approx(0.5, abs=0.04)


def test_sampled_experts_are_as_likely_as_the_router_says():
    likely = np.array([0.6, 0.3, 0.1])
    logits = np.broadcast_to(np.log(likely), (1, 4000, 3))
    slots, weights, _ = routes("switch", logits, RoutingOptions(policy="sample"), capacity=4000)
    expert = slots[0, 0] // 4000
    np.testing.assert_allclose(np.bincount(expert) / 4000, likely, atol=0.03)
    np.testing.assert_allclose(weights[0, 0], likely[expert], rtol=1e-5)


def test_random_experts_are_equally_likely_and_weighted_by_the_router():
    likely = np.array([0.6, 0.3, 0.1])
    logits = np.broadcast_to(np.log(likely), (1, 4000, 3))
    slots, weights, _ = routes("random", logits, capacity=4000)
    expert = slots[0, 0] // 4000
    np.testing.assert_allclose(np.bincount(expert) / 4000, 1 / 3, atol=0.03)
    np.testing.assert_allclose(weights[0, 0], likely[expert], rtol=1e-5)


@pytest.mark.parametrize(("temperature", "third"), [(None, 0.0), (1.0, 0.1)])
def test_the_second_place_is_taken_now_and_then(temperature, third):
    logits = np.broadcast_to(np.log([0.6, 0.2, 0.2 - 1e-4]), (1, 4000, 3))
    options = RoutingOptions(second_place=0.2, second_place_temperature=temperature)
    slots, _, _ = routes("switch", logits, options, capacity=4000)
    found = np.bincount(slots[0, 0] // 4000, minlength=3) / 4000
    np.testing.assert_allclose(found, [0.8, 0.2 - third, third], atol=0.03)


def test_second_places_are_balanced_on_demand():
    # First choices are even: 1; all second choices are expert 2, with half of what is left.
    p = np.array([[0.5, 0.2, 0.3], [0.2, 0.5, 0.3]])
    options = RoutingOptions(second_place_loss=True)
    _, _, balance = routes("top_2", np.log(p)[None], options)
    rest = (np.array([0, 0.4, 0.6]) + np.array([0.4, 0, 0.6])) / 2
    share, mean = np.array([0.5, 0.5, 0]), p.mean(0)
    assert balance == pytest.approx(3 * (share @ mean) + 0.5 * 3 * rest[2], rel=1e-5)
