"""What there is to choose from: layers, stacks, vocabularies, models and routings."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mtf_models import transformer
from mtf_models.configurable import registered, signature_of
from mtf_models.runtime.registry import register
from mtf_models.transformer import sublayers
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.moe.mixture import Mixture
from mtf_models.transformer.moe.routing import ROUTINGS
from mtf_models.transformer.stack import LayerStack

Entries = Mapping[str, Callable[..., Any]]


def catalogue() -> dict[str, Entries]:
    """Each kind of thing, with its members by name; those of imported modules too."""
    register()
    found = {cls.__name__: cls for cls in sorted(classes(), key=lambda cls: cls.__name__)}
    kinds: dict[str, dict[str, Callable[..., Any]]] = {
        "attention": {},
        "experts": {},
        "other layers": {},
        "stacks": {},
        "vocabularies": {},
        "models": {},
    }
    for name, cls in found.items():
        kinds[_kind(cls)][name] = cls
    around = {name: x for name, x in vars(sublayers).items() if name.startswith("sublayer_")}
    return {
        **kinds,
        "routings (moe_gating)": dict(ROUTINGS),
        "sublayers": {name: around[name] for name in sorted(around)},
    }


def classes() -> set[type]:
    """All layers and stacks that can be made, and every other class of models that gin may name."""
    names = {selector.rsplit(".", 1)[1] for selector in registered()}
    ours = {
        cls
        for module in _modules()
        for cls in vars(module).values()
        if inspect.isclass(cls) and cls.__module__ == module.__name__ and cls.__name__ in names
    }
    derived = {*_derived(TransformerLayer), LayerStack, *_derived(LayerStack)}
    return {
        cls
        for cls in ours | derived
        if not inspect.isabstract(cls) and not cls.__name__.startswith("_")
    }


def parameters(target: Callable[..., Any]) -> dict[str, Any]:
    """What gin can bind of a class or function, with defaults; none of what it does not know."""
    known = [r for s, r in registered().items() if s.rsplit(".", 1)[1] == target.__name__]
    if not known:
        return {}
    context = ("self", "x", "layer_stack", "context")  # which the stack gives
    found, _ = signature_of(inspect.unwrap(target))
    return {n: v for n, v in found.items() if n not in known[0].denied and n not in context}


def _kind(cls: type) -> str:
    if issubclass(cls, TransformerLayer):
        if issubclass(cls, SelfAttention) or "Attention" in cls.__name__:
            return "attention"
        return "experts" if issubclass(cls, Mixture) else "other layers"
    if issubclass(cls, LayerStack):
        return "stacks"
    return "vocabularies" if ".vocab" in cls.__module__ else "models"


def _modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(transformer.__path__, f"{transformer.__name__}."):
        yield importlib.import_module(found.name)


def _derived(cls: type) -> Iterator[type]:
    for derived in cls.__subclasses__():
        yield derived
        yield from _derived(derived)
