"""Routing: from the logits of a router to the experts, slots and weights of tokens.

Each routing is a function of `Gates` and `RoutingOptions`, listed by name in `ROUTINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.transformer.moe.balance import balance_of_choices, balance_of_selection
from mtf_models.transformer.moe.gates import Gates, Routes
from mtf_models.transformer.moe.slots import NOWHERE, fill_by_score, fill_in_order

_TINY = 1e-9


@dataclass(frozen=True)
class RoutingOptions:
    """What some routings want to know.

    Attributes:
        choices: of top_n, how many experts a token may go to; of ntlb, how many it tries.
        policy: of those that make one choice: "sample" draws the expert, anything else takes the
            most likely one.
        temperature: of "sample".
        second_policy: of top_2 and top_n, which choices after the first are made: "all", "none",
            "threshold" (weight above it) or "random" (with probability weight / threshold).
        second_threshold: of the second policy.
        second_place_loss: whether second choices are balanced too.
        second_place: of switch routings, the probability that a token goes to an expert that is
            not the most likely one; None for never.
        second_place_temperature: at what temperature that one is drawn; None takes the second.
    """

    choices: int = 1
    policy: str = "argmax"
    temperature: float = 1.0
    second_policy: str = "all"
    second_threshold: float = 0.2
    second_place_loss: bool = False
    second_place: float | None = None
    second_place_temperature: float | None = None


Routing = Callable[[Gates, RoutingOptions], Routes]


def switch(gates: Gates, options: RoutingOptions) -> Routes:
    """Each token to one expert, the first tokens first (Fedus et al. 2021, section 2.1)."""
    return _in_order(gates, _one_choice(gates, options))


def random(gates: Gates, options: RoutingOptions) -> Routes:
    """Each token to an expert drawn evenly, as a baseline; its weight is the router's."""
    mesh, shape = gates.logits.mesh, gates.logits.shape - gates.experts
    drawn = mtf.random_uniform(mesh, shape, maxval=float(gates.experts.size))
    return _in_order(gates, mtf.minimum(mtf.to_int32(drawn), gates.experts.size - 1))


def switch_max(gates: Gates, options: RoutingOptions) -> Routes:
    """As `switch`, but an expert takes the tokens that are most likely its own."""
    choice = _one_choice(gates, options)
    expert = gates.only_tokens(choice)
    chosen = mtf.one_hot(expert, gates.experts)
    scores = gates.probabilities * chosen + (chosen - 1.0)
    at_experts = fill_by_score(
        mtf.stop_gradient(scores), gates.group, gates.experts, gates.capacity
    )
    slot = mtf.reduce_max(at_experts, reduced_dim=gates.experts)
    balance = _balance(gates, choice, padding_takes_part=True)
    return Routes.of(
        gates, _as_choices(slot, gates), _as_choices(_weight(gates, expert), gates), balance
    )


def top_2(gates: Gates, options: RoutingOptions) -> Routes:
    """Each token to two experts, second choices after all first ones (Lepikhin et al. 2020)."""
    return _several(gates, options, 2)


def top_n(gates: Gates, options: RoutingOptions) -> Routes:
    """As `top_2` with `options.choices` experts."""
    return _several(gates, options, options.choices)


def ntlb(gates: Gates, options: RoutingOptions) -> Routes:
    """No token left behind: who finds an expert full tries the next (Fedus et al. 2021, app. B)."""
    choices = Dimension("choices", min(options.choices, gates.experts.size))
    _, ranked = mtf.top_k(mtf.stop_gradient(gates.probabilities), gates.experts, choices)
    slot = expert = taken = None
    for number in range(choices.size):
        tried = gates.only_tokens(_entry(ranked, choices, number))
        if slot is None:
            slot, expert = mtf.zeros_like(tried) + NOWHERE, tried
        lost = mtf.less(slot, 0)
        trying = mtf.where(lost, tried, NOWHERE)
        found, taken = fill_in_order(
            _as_choices(trying, gates), gates.experts, gates.capacity, taken
        )
        slot = mtf.where(lost, mtf.reshape(found, slot.shape), slot)
        expert = mtf.where(lost, tried, expert)
    weight = _weight(gates, expert)
    wanted = mtf.reduce_mean(mtf.one_hot(ranked, gates.experts), reduced_dim=choices)
    balance = balance_of_choices(gates, wanted, gates.probabilities, padding_takes_part=True)
    return Routes.of(gates, _as_choices(slot, gates), _as_choices(weight, gates), balance)


def expert_selection(gates: Gates, options: RoutingOptions) -> Routes:
    """Each expert takes the tokens it wants most (Zhou et al. 2022); not for causal models.

    An expert's probabilities are over the tokens of the group. What a token gets from several
    experts is divided by their number.
    """
    logits = gates.at_padding(gates.logits, -1e9)
    probabilities = gates.masked(mtf.softmax(logits, gates.group))
    scores = gates.at_padding(mtf.stop_gradient(probabilities), -1.0)
    at_experts = fill_by_score(scores, gates.group, gates.experts, gates.capacity)
    slots = mtf.reshape(at_experts, _choices_shape(gates, gates.experts.size))
    weights = mtf.reshape(mtf.transpose(probabilities, at_experts.shape), slots.shape)
    kept = mtf.to_float(mtf.greater_equal(slots, 0))
    number = mtf.reduce_sum(kept, reduced_dim=slots.shape.get_dim_by_name("choices"))
    weights = mtf.divide(weights, mtf.maximum(number, 1.0), output_shape=weights.shape)
    return Routes.of(gates, slots, weights, balance_of_selection(gates, probabilities))


ROUTINGS: dict[str, Routing] = {
    "top_2": top_2,
    "top_n": top_n,
    "switch": switch,
    "switch_max": switch_max,
    "ntlb": ntlb,
    "expert_selection": expert_selection,
    "random": random,
}
"""Name to routing."""


def _several(gates: Gates, options: RoutingOptions, count: int) -> Routes:
    """Top 2, top 3, ...: weights over their sum, dropped by a policy after the first."""
    choices = Dimension("choices", min(count, gates.experts.size))
    shape = _choices_shape(gates, choices.size)
    found, experts = (
        mtf.transpose(x, shape) for x in mtf.top_k(gates.probabilities, gates.experts, choices)
    )
    found = gates.masked(found)
    total = mtf.reduce_sum(found, reduced_dim=choices) + _TINY
    weights = mtf.divide(found, total, output_shape=shape)
    first = _entry(experts, choices, 0)
    balance = _balance(gates, first, padding_takes_part=False)
    if options.second_place_loss and choices.size > 1:
        balance += 0.5 * _second_place_balance(gates, first, _entry(experts, choices, 1))
    experts = gates.only_tokens(experts)
    experts = mtf.where(_made(weights, choices, options), experts, NOWHERE)
    slots, _ = fill_in_order(experts, gates.experts, gates.capacity)
    return Routes.of(gates, slots, weights, balance)


def _second_place_balance(gates: Gates, first: Tensor, second: Tensor) -> Tensor:
    """The balance of second choices, by the probabilities without the first ones."""
    rest = gates.probabilities * (1.0 - mtf.one_hot(first, gates.experts))
    total = mtf.reduce_sum(rest, reduced_dim=gates.experts) + _TINY
    rest = mtf.divide(rest, total, output_shape=rest.shape)
    wanted = mtf.one_hot(second, gates.experts)
    return balance_of_choices(gates, wanted, rest, padding_takes_part=False)


def _made(weights: Tensor, choices: Dimension, options: RoutingOptions) -> Tensor:
    """[..., choices, group] bool, which choices the policy lets be made; the first always."""
    mesh, shape = weights.mesh, weights.shape
    first = mtf.less(mtf.mtf_range(mesh, choices), 1)
    threshold = options.second_threshold
    match options.second_policy:
        case "all":
            later = mtf.greater_equal(weights, 0.0)
        case "none":
            later = mtf.less(weights, 0.0)
        case "threshold":
            later = mtf.greater(weights, threshold)
        case "random":
            later = mtf.less(mtf.random_uniform(mesh, shape), weights / max(threshold, _TINY))
    return mtf.logical_or(later, mtf.broadcast(first, shape))


def _one_choice(gates: Gates, options: RoutingOptions) -> Tensor:
    """[..., group] int32, the expert of each token."""
    logits = mtf.stop_gradient(gates.logits)
    if options.policy == "sample":
        return mtf.sample_with_temperature(logits, gates.experts, options.temperature)
    best = mtf.argmax(logits, gates.experts)
    if not options.second_place:
        return best
    others = logits - 1e9 * mtf.one_hot(best, gates.experts)
    temperature = options.second_place_temperature or 0.0
    other = mtf.sample_with_temperature(others, gates.experts, temperature)
    chance = mtf.random_uniform(logits.mesh, best.shape)
    return mtf.where(mtf.less(chance, options.second_place), other, best)


def _in_order(gates: Gates, expert: Tensor) -> Routes:
    """One choice for each token, [..., group] int32, in the order of the tokens."""
    balance = _balance(gates, expert, padding_takes_part=True)
    expert = gates.only_tokens(expert)
    slots, _ = fill_in_order(_as_choices(expert, gates), gates.experts, gates.capacity)
    weights = _as_choices(_weight(gates, expert), gates)
    return Routes.of(gates, slots, weights, balance)


def _balance(gates: Gates, expert: Tensor, padding_takes_part: bool) -> Tensor:
    wanted = mtf.one_hot(expert, gates.experts)
    return balance_of_choices(gates, wanted, gates.probabilities, padding_takes_part)


def _weight(gates: Gates, expert: Tensor) -> Tensor:
    """[..., group] float32, the probability of the chosen expert."""
    chosen = mtf.one_hot(expert, gates.experts)
    return mtf.reduce_sum(gates.probabilities * chosen, reduced_dim=gates.experts)


def _choices_shape(gates: Gates, count: int) -> Shape:
    outer = gates.logits.shape.dims[:-2]
    return Shape([*outer, Dimension("choices", count), gates.group])


def _as_choices(x: Tensor, gates: Gates) -> Tensor:
    """[..., group] as the only choice."""
    return mtf.reshape(x, _choices_shape(gates, 1))


def _entry(x: Tensor, dim: Dimension, index: int) -> Tensor:
    one = mtf.slice(x, index, 1, dim.name)
    return mtf.reshape(one, Shape([d for d in one.shape if d.name != dim.name]))
