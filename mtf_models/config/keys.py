"""What a configuration binds: the keys, the values, and how both are written."""

from __future__ import annotations

import pprint
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mtf_models.config.names import short
from mtf_models.config.statements import Macro, Reference, leaves, map_leaves

_WIDTH = 100


class Key(NamedTuple):
    """A parameter in a scope; the selector is the full name of the configurable."""

    scope: str
    selector: str
    parameter: str

    def __str__(self) -> str:
        parameter = f".{self.parameter}" if self.parameter else ""
        return f"{self.scope}{'/' if self.scope else ''}{short(self.selector)}{parameter}"

    def full(self) -> str:
        """The key with the full name, which gin cannot take for another one."""
        return f"{self.scope}{'/' if self.scope else ''}{self.selector}.{self.parameter}"

    def outer(self) -> Iterator[Key]:
        """The key itself, then those that gin falls back to: the scopes from inner to outer."""
        scopes = self.scope.split("/") if self.scope else []
        for length in range(len(scopes), -1, -1):
            yield self._replace(scope="/".join(scopes[:length]))


def macros_in(value: Any) -> list[str]:
    """The names of the macros that a value mentions."""
    return [leaf.name for leaf in leaves(value) if isinstance(leaf, Macro)]


def references_in(value: Any) -> list[Reference]:
    """The references that a value holds."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, Reference)]


def expand(value: Any, macros: Mapping[str, Any]) -> Any:
    """The value with every macro replaced by what it stands for; an unknown one stays."""

    def replaced(leaf: Any) -> Any:
        if isinstance(leaf, Macro) and leaf.name in macros:
            return expand(macros[leaf.name], macros)
        return leaf

    return map_leaves(replaced, value)


def render(value: Any) -> str:
    """A value in one line, as gin reads it, with short names."""
    return repr(_shortened(value))


def statement(key: str, value: Any) -> str:
    """A binding as gin reads it, in lines of bounded length where the value can be broken."""
    line = f"{key} = {render(value)}"
    if len(line) <= _WIDTH:
        return line
    broken = pprint.pformat(_shortened(value), width=_WIDTH - 4)
    return f"{key} = \\\n    " + broken.replace("\n", "\n    ")


def _shortened(value: Any) -> Any:
    def shortened(leaf: Any) -> Any:
        return leaf.renamed(short(leaf.selector)) if isinstance(leaf, Reference) else leaf

    return map_leaves(shortened, value)
