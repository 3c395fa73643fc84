"""Dispatch and its reverse equal products with one-hot tensors, split or not, with gradients."""

import numpy as np
import plain_routing as plain
import pytest

import mtf_models as mtf
from mtf_models.testing import ONE_DEVICE, Placement, check_op
from mtf_models.transformer.moe.dispatch import Dispatch
from mtf_models.transformer.moe.gates import Routes
from mtf_models.transformer.moe.slots import entries_of

GROUPS, TOKENS, EXPERTS, CAPACITY, WIDTH = 4, 5, 4, 2, 8
EXPERTS_DIM = mtf.Dimension("expert_unsplit", EXPERTS)
RNG = np.random.default_rng(0)
PLACEMENTS = [
    ONE_DEVICE,
    Placement("batch:4", "batch:batch,experts:batch"),
    Placement("batch:2;model:4", "batch:batch,experts:model"),
    Placement("model:2", "experts:model"),
    Placement("batch:2;model:4", "batch:batch,experts:batch,d_model:model"),
]


def made_slots(choices):
    wanted = RNG.integers(-1, EXPERTS, (GROUPS, choices, TOKENS))
    return np.stack([plain.in_order(w, EXPERTS, CAPACITY) for w in wanted]).astype(np.int32)


def one_hot(slots):
    """[groups, choices, tokens, experts, capacity]."""
    hot = slots[..., None] == np.arange(EXPERTS * CAPACITY)
    return hot.reshape(*slots.shape, EXPERTS, CAPACITY).astype(float)


def there_and_back(tokens, weights, slots):
    entries = entries_of(slots, EXPERTS_DIM, mtf.Dimension("expert_capacity", CAPACITY))
    zero = mtf.zeros(tokens.mesh, [])
    dispatch = Dispatch(Routes(slots, entries, weights, zero))
    at_experts = dispatch.to_experts(tokens)
    return [at_experts, dispatch.from_experts(mtf.tanh(at_experts))]


def by_one_hot(tokens, weights, slots):
    hot = one_hot(slots)
    at_experts = np.einsum("gsd,gksec->egcd", tokens, hot)
    combined = np.einsum("egcd,gksec,gks->gsd", np.tanh(at_experts), hot, weights)
    return [at_experts, combined]


@pytest.mark.parametrize("choices", [1, 3])
def test_there_and_back(choices):
    inputs = {
        "tokens": (
            f"batch:{GROUPS} group:{TOKENS} d_model:{WIDTH}",
            RNG.normal(size=(GROUPS, TOKENS, WIDTH)),
        ),
        "weights": (
            f"batch:{GROUPS} choices:{choices} group:{TOKENS}",
            RNG.uniform(0.1, 1, (GROUPS, choices, TOKENS)),
        ),
        "slots": (f"batch:{GROUPS} choices:{choices} group:{TOKENS}", made_slots(choices)),
    }
    placements = PLACEMENTS if choices == 1 else PLACEMENTS[:2]
    check_op(there_and_back, inputs, by_one_hot, placements=placements, rtol=1e-3)
