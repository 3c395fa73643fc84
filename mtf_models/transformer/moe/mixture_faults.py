"""Options of mixtures of experts that cannot be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from mtf_models.errors import ConfigError, did_you_mean
from mtf_models.transformer.moe.routing import ROUTINGS

WORD_EMBED_MODES = ("concat", "concat_stop_grad", "add", "add_stop_grad", "embed_only")
"""How a router can see the embeddings of tokens."""

_POLICIES = ("argmax", "input_dropout", "input_jitter", "sample")
_SECOND_POLICIES = ("all", "none", "threshold", "random")
_WORDS = {
    "moe_gating": tuple(ROUTINGS),
    "switch_policy_train": _POLICIES,
    "switch_policy_eval": _POLICIES,
    "second_policy_train": _SECOND_POLICIES,
    "second_policy_eval": _SECOND_POLICIES,
    "capacity_rounding": ("down", "up"),
    "balance_over": ("positions", "tokens"),
    "word_embed_mode": (None, *WORD_EMBED_MODES),
}
_COUNTS = {
    "num_experts": 1,
    "group_size": 1,
    "ntlb_top_k": 1,
    "top_n_num_experts_per_token": 1,
    "expert_capacity": 1,
    "min_expert_capacity": 0,
}
_FROM_ZERO = (
    "loss_coef",
    "z_loss",
    "second_threshold_train",
    "second_threshold_eval",
    "switch_temperature",
    "use_second_place_expert_prob_temp",
)
_PARTS = ("switch_dropout", "switch_jitter", "use_second_place_expert_prob")
_MAY_BE_NONE = (
    "expert_capacity",
    "z_loss",
    "use_second_place_expert_prob",
    "use_second_place_expert_prob_temp",
)


def check_mixture(layer: Any) -> None:
    """Refuses options that cannot be.

    Args:
        layer: a `Mixture`.

    Raises:
        ConfigError: listing all of them.
    """
    faults = [fault.rstrip(".") for fault in (*_wrong_values(layer), *_contradictions(layer))]
    if faults:
        raise ConfigError(f"{layer.owner} has {'. '.join(faults)}.")


def _wrong_values(layer: Any) -> Iterator[str]:
    for name, known in _WORDS.items():
        if (value := getattr(layer, name)) not in known:
            yield f"{name} = {value!r}{did_you_mean(str(value), filter(None, known))}"
    for name in layer.capacity_factors:
        value = getattr(layer, name)
        if not (_is_number(value) and value > 0):
            yield f"{name} = {value!r}; give a number above 0"
    for name, least in _COUNTS.items():
        if not (_is_none(layer, name) or _is_count(getattr(layer, name), least)):
            yield f"{name} = {getattr(layer, name)!r}; give a whole number from {least}"
    for name in _FROM_ZERO:
        value = getattr(layer, name)
        if not (_is_none(layer, name) or _is_number(value) and value >= 0):
            yield f"{name} = {value!r}; give a number from 0"
    for name in _PARTS:
        value = getattr(layer, name)
        if not (_is_none(layer, name) or _is_number(value) and 0 <= value <= 1):
            yield f"{name} = {value!r}; give a number from 0 to 1"


def _contradictions(layer: Any) -> Iterator[str]:
    """Options that the routing, if there is such a one, does nothing with."""
    gating = layer.moe_gating
    of_switch = {
        name: getattr(layer, name)
        for name in ("switch_policy_train", "switch_policy_eval")
        if getattr(layer, name) == "sample"
    }
    if layer.use_second_place_expert_prob is not None:
        of_switch["use_second_place_expert_prob"] = layer.use_second_place_expert_prob
    if gating in ROUTINGS and not gating.startswith("switch"):
        known = f"only the routings switch and switch_max do that, not {gating}"
        yield from (f"{name} = {value!r}; {known}" for name, value in of_switch.items())
    wanted, experts = layer.top_n_num_experts_per_token, layer.num_experts
    if gating == "top_n" and _is_count(experts, 1) and _is_count(wanted, 1) and wanted > experts:
        yield f"top_n_num_experts_per_token = {wanted}; there are only {experts} experts"


def _is_none(layer: Any, name: str) -> bool:
    return name in _MAY_BE_NONE and getattr(layer, name) is None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and value >= least
