"""From which variable of an initial checkpoint each variable of a model begins, as gin says."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple

from mtf_models.checkpoint import Reader, locate
from mtf_models.checkpoint.historical import stored_names
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError

_UTILS = "mesh_tensorflow.transformer.utils"
_PLACE = re.compile(
    r"(?P<tower>.*?)(?:block_(?P<block>\d{3})/)?layer_(?P<layer>\d{3})/(?P<rest>.*)"
)

NameFilter = Callable[[str], bool]
NameMapping = Callable[[str], str | None]
_Places = dict[tuple[int, int], str]
"""Numbers of block and layer -> the scope, such as "encoder/block_000/layer_001/"."""


class _Names(NamedTuple):
    """What is matched at present: the names of the model, and those of the checkpoint."""

    wanted: tuple[str, ...]
    stored: tuple[str, ...]


_matched: ContextVar[_Names | None] = ContextVar("_matched", default=None)


@configurable(module=_UTILS)
def should_load_variable(name: str, filter_fn: NameFilter | None = None) -> bool:
    """Whether a variable of the model begins with what is in the initial checkpoint.

    Args:
        name: of the variable.
        filter_fn: decides it; None for all.
    """
    return filter_fn is None or bool(filter_fn(name))


@configurable(module=_UTILS)
def init_checkpoint_variable_mapping(
    name: str, mapping_fn: NameMapping | None = None
) -> str | None:
    """The name in the initial checkpoint of a variable of the model.

    Args:
        name: of the variable in the model.
        mapping_fn: gives it, or None for a variable that is new; None for equal names.
    """
    return name if mapping_fn is None else mapping_fn(name)


@configurable(module=_UTILS)
def flexible_ckpt_init_mapping(
    ckpt_path: str = "",
    new_layers: Sequence[Sequence[int] | None] | None = None,
    return_mapping_fn: bool = True,
) -> NameMapping | NameFilter:
    """Matches the layers of model and checkpoint by their order instead of their numbers.

    So layers may be inserted into the blocks of a model, or be put into other blocks. Bind it as
    `init_checkpoint_variable_mapping.mapping_fn`, and as `should_load_variable.filter_fn` with
    `return_mapping_fn = False`.

    Args:
        ckpt_path: the checkpoint that names are taken from; "" for the initial one of the run.
        new_layers: for encoder and decoder, or for the one stack, the numbers of the layers in
            each block that are new in the model.
        return_mapping_fn: whether to return the mapping, and not a filter that leaves out what is
            new.

    Raises:
        ConfigError: if, new ones left out, the model has another number of layers.
    """
    names = _matched.get()
    if names is None:
        raise ConfigError(
            "flexible_ckpt_init_mapping works while a run begins with run.init_checkpoint: bind it "
            "to init_checkpoint_variable_mapping.mapping_fn or should_load_variable.filter_fn."
        )
    stored = names.stored if not ckpt_path else tuple(Reader(locate(ckpt_path)).names)
    mapping = _by_order(names.wanted, stored, new_layers)
    return mapping.get if return_mapping_fn else mapping.__contains__


def matched(wanted: Iterable[str], stored: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Matches names under the bindings of a config, historical names included.

    Args:
        wanted: names of a model and its slots.
        stored: names of a checkpoint.

    Returns:
        Wanted name to stored name of what is in the checkpoint, and what is not to be loaded.

    Raises:
        ConfigError: if a function that gin binds does not fit.
    """
    names = _Names(tuple(wanted), tuple(stored))
    token = _matched.set(names)
    try:
        skipped = [name for name in names.wanted if not should_load_variable(name)]
        mapped = {
            name: init_checkpoint_variable_mapping(name)
            for name in names.wanted
            if name not in set(skipped)
        }
    finally:
        _matched.reset(token)
    known = {name: other for name, other in mapped.items() if other is not None}
    found = stored_names(dict.fromkeys(known.values()), names.stored)
    return {name: found[other] for name, other in known.items() if other in found}, skipped


def _by_order(
    wanted: Sequence[str],
    stored: Sequence[str],
    new_layers: Sequence[Sequence[int] | None] | None,
) -> dict[str, str]:
    """Model name to checkpoint name of all that is not in a new layer."""
    here, there = _places(wanted), _places(stored)
    scopes: dict[str, str | None] = {}
    for (tower, ours), new in zip(here.items(), _new(here, new_layers), strict=True):
        kept = [scope for (_, layer), scope in sorted(ours.items()) if layer not in new]
        theirs = [scope for _, scope in sorted(there.get(tower, {}).items())]
        if len(kept) != len(theirs):
            raise ConfigError(
                f"{tower or 'The stack'} has {len(kept)} layers, {len(ours) - len(kept)} new ones "
                f"left out, and the initial checkpoint {len(theirs)}: name in "
                "flexible_ckpt_init_mapping.new_layers all that are new."
            )
        scopes |= dict.fromkeys(ours.values()) | dict(zip(kept, theirs, strict=True))
    found = {}
    for name in wanted:
        place = _PLACE.fullmatch(name)
        scope = name.removesuffix(place["rest"]) if place else ""
        if place is None:
            found[name] = name
        elif scopes[scope] is not None:
            found[name] = scopes[scope] + place["rest"]
    return found


def _places(names: Iterable[str]) -> Mapping[str, _Places]:
    """Tower, such as "encoder/", to its layers."""
    found: dict[str, _Places] = defaultdict(dict)
    for name in names:
        place = _PLACE.fullmatch(name)
        if place:
            key = int(place["block"] or 0), int(place["layer"])
            found[place["tower"]][key] = name.removesuffix(place["rest"])
    return found


def _new(
    towers: Iterable[str], new_layers: Sequence[Sequence[int] | None] | None
) -> list[Sequence[int]]:
    """The numbers of new layers, in the order of the towers."""
    towers = list(towers)
    if new_layers is None:
        return [()] * len(towers)
    order = ["encoder/", "decoder/"] if len(new_layers) == 2 else towers
    given = dict(zip(order, new_layers, strict=False))
    if len(new_layers) != len(order) or given.keys() != set(towers):
        raise ConfigError(
            f"flexible_ckpt_init_mapping.new_layers is {list(new_layers)}; give a list of numbers "
            f"for each of {', '.join(towers)}, the encoder's first."
        )
    return [given[tower] or () for tower in towers]
