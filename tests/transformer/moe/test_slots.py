"""Slots: no two tokens share one, no expert has more than its capacity, and the inverse is one."""

import math

import numpy as np
import plain_routing as plain
from hypothesis import given, settings
from hypothesis import strategies as st

import mtf_models as mtf
from mtf_models.transformer.moe.slots import entries_of, fill_by_score, fill_in_order

MESH = mtf.Mesh()


def named(array, names):
    return mtf.import_tf_tensor(MESH, array, list(zip(names, array.shape, strict=True)))


@st.composite
def demands(draw):
    """Choices of experts, of which -1 is none, for some groups; experts; capacity."""
    experts = draw(st.integers(1, 5))
    sizes = [draw(st.integers(1, n)) for n in (2, 3, 7)]
    size = math.prod(sizes)
    flat = draw(st.lists(st.integers(-1, experts - 1), min_size=size, max_size=size))
    return np.array(flat, np.int32).reshape(sizes), experts, draw(st.integers(1, 9))


@settings(max_examples=40, deadline=None)
@given(demands())
def test_slots_are_taken_in_order(demand):
    chosen, experts, capacity = demand
    dim = mtf.Dimension("experts", experts)
    slots, taken = fill_in_order(named(chosen, ("batch", "choices", "group")), dim, capacity)
    entries = entries_of(slots, dim, mtf.Dimension("expert_capacity", capacity)).numpy()
    for group, wanted in enumerate(chosen):
        found = slots.numpy()[group]
        np.testing.assert_array_equal(found, plain.in_order(wanted, experts, capacity))
        kept = found[found >= 0]
        assert len(set(kept)) == len(kept)
        for expert in range(experts):
            number = min(capacity, (wanted == expert).sum())
            assert (kept // capacity == expert).sum() == taken.numpy()[group, expert] == number
        # Entry by slot and slot by entry are each other's inverse.
        by_slot = entries[group].reshape(-1)
        flat = found.reshape(-1)
        assert all(by_slot[slot] == entry for entry, slot in enumerate(flat) if slot >= 0)
        assert (by_slot >= 0).sum() == len(kept)


def test_slots_that_are_taken_are_not_given_again():
    chosen = named(np.array([[[0, 1, 0, 0]]], np.int32), ("batch", "choices", "group"))
    taken = named(np.array([[1.0, 3.0]], np.float32), ("batch", "experts"))
    slots, taken = fill_in_order(chosen, taken.shape.dims[-1], 3, taken)
    np.testing.assert_array_equal(slots, [[[1, -1, 2, -1]]])
    np.testing.assert_array_equal(taken, [[3, 3]])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 7), st.integers(0, 2**31))
def test_those_who_score_highest_have_the_slots(tokens, experts, capacity, seed):
    # Whole numbers, so that there are ties.
    scores = np.random.default_rng(seed).integers(-2, 4, (2, tokens, experts)).astype(np.float32)
    given_scores = named(scores, ("batch", "group", "experts"))
    slots = fill_by_score(given_scores, *given_scores.shape.dims[1:], capacity)
    for group in range(2):
        np.testing.assert_array_equal(slots.numpy()[group], plain.by_score(scores[group], capacity))
