"""What can be wrong with macros, and which of them are needed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import gin

from mtf_models.config.keys import expand, macros_in, references_in
from mtf_models.errors import did_you_mean


def undefined(value: Any, macros: Mapping[str, Any]) -> Iterator[str]:
    """A message for each macro in a value that neither the files nor `gin.constant` define."""
    for name in macros_in(value):
        if name not in macros and not _is_constant(name):
            near = did_you_mean(name, macros) if macros else "; there are none."
            yield f"the macro %{name} is not defined{near}"


def circular(macros: Mapping[str, Any]) -> list[str]:
    """The macros that mention themselves, directly or through others."""
    return [name for name in macros if name in reached(macros_in(macros[name]), macros)]


def unused(names: Iterable[str], used: Iterable[str]) -> dict[str, str]:
    """The macros, or scopes, that nothing uses, each with the used one that it nearly is, or ""."""
    used = set(used)
    found = {}
    for name in names:
        if name not in used:
            near = difflib.get_close_matches(name, used, n=1, cutoff=0.85)
            found[name] = near[0] if near else ""
    return found


def needed(macros: Mapping[str, Any], values: Iterable[Any]) -> dict[str, Any]:
    """The macros to define for some values: those in use, and those that are plain values.

    A reference in a macro that nothing uses may be to something that is not there.
    """
    used = reached((name for value in values for name in macros_in(value)), macros)
    return {
        name: value
        for name, value in macros.items()
        if name in used or not references_in(expand(value, macros))
    }


def reached(names: Iterable[str], macros: Mapping[str, Any]) -> set[str]:
    """The macros named, and those that their values mention, directly or through others."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(macros_in(macros[name]) if name in macros else ())
    return found


def _is_constant(name: str) -> bool:
    """Whether `gin.constant` has defined the name."""
    try:
        gin.query_parameter(name)
    except (KeyError, ValueError):
        return False
    return True
