"""The slots of experts: who sits where, and where everyone sits.

Each expert has `capacity` slots in each group; slot `expert * capacity + place` is one number. A
token may make several choices; (choice, token), choices first, is one number too, an entry.
"""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Shape, Tensor

NOWHERE = -1
"""In the place of a slot or an entry: there is none."""


def fill_in_order(
    experts: Tensor, experts_dim: Dimension, capacity: int, taken: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Gives each choice the next free slot of its expert, until the expert is full.

    First choices come before second ones, and in each the tokens in their order.

    Args:
        experts: [..., choices, group] int32, the chosen expert, below 0 for none.
        experts_dim: the experts.
        capacity: how many slots an expert has.
        taken: [..., experts] float32, how many slots are not free; by default none.

    Returns:
        [..., choices, group] int32, the slot or `NOWHERE`, and `taken` afterwards.
    """
    entries = Dimension("entries", Shape(experts.shape.dims[-2:]).size)
    shape = Shape([*experts.shape.dims[:-2], entries])
    flat = mtf.reshape(experts, shape)
    wanted = mtf.one_hot(flat, experts_dim)
    before = mtf.cumsum(wanted, entries, exclusive=True)
    demand = mtf.reduce_sum(wanted, reduced_dim=entries)
    if taken is not None:
        before = mtf.add(before, taken, output_shape=before.shape)
        demand += taken
    place = mtf.to_int32(mtf.reduce_sum(before * wanted, reduced_dim=experts_dim))
    kept = mtf.logical_and(mtf.less(place, capacity), mtf.greater_equal(flat, 0))
    slots = mtf.where(kept, flat * capacity + place, NOWHERE)
    return mtf.reshape(slots, experts.shape), mtf.minimum(demand, float(capacity))


def fill_by_score(
    scores: Tensor, group: Dimension, experts_dim: Dimension, capacity: int
) -> Tensor:
    """Gives the slots of each expert to the tokens that score highest with it.

    Args:
        scores: [..., group, experts] float32; below 0 where a token must not have a slot.
        group: the tokens.
        experts_dim: the experts.
        capacity: how many slots an expert has.

    Returns:
        [..., experts, group] int32, the slot of a token at each expert or `NOWHERE`.
    """
    by_expert = mtf.transpose(scores, scores.shape - [group, experts_dim] + [experts_dim, group])
    # The order of the order is the rank.
    rank = mtf.argsort(mtf.argsort(-by_expert, group), group)
    first = mtf.mtf_range(scores.mesh, experts_dim) * capacity
    kept = mtf.logical_and(mtf.less(rank, capacity), mtf.greater_equal(by_expert, 0.0))
    return mtf.where(kept, mtf.add(rank, first, output_shape=rank.shape), NOWHERE)


def entries_of(slots: Tensor, experts_dim: Dimension, capacity_dim: Dimension) -> Tensor:
    """The inverse: which entry sits in each slot.

    Args:
        slots: [..., choices, group] int32, each slot at most once, or `NOWHERE`. The slots of an
            expert are taken from its first one on.
        experts_dim: the experts.
        capacity_dim: the slots of an expert.

    Returns:
        [..., experts, capacity] int32, the entry or `NOWHERE`.
    """
    entries = Dimension("entries", Shape(slots.shape.dims[-2:]).size)
    flat = mtf.reshape(slots, Shape([*slots.shape.dims[:-2], entries]))
    kept = mtf.greater_equal(flat, 0)
    behind_all = experts_dim.size * capacity_dim.size
    order = mtf.argsort(mtf.where(kept, flat, behind_all), entries)
    expert = mtf.where(kept, mtf.floordiv(flat, capacity_dim.size), NOWHERE)
    count = mtf.reduce_sum(mtf.one_hot(expert, experts_dim), reduced_dim=entries)
    first = mtf.cumsum(count, experts_dim, exclusive=True)
    shape = count.shape + capacity_dim
    place = mtf.mtf_range(slots.mesh, capacity_dim)
    at = mtf.add(mtf.to_int32(first), place, output_shape=shape)
    filled = mtf.greater(mtf.to_int32(count), place, output_shape=shape)
    return mtf.where(filled, mtf.gather(order, at, entries), NOWHERE)
