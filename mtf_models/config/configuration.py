"""A parsed configuration: an immutable record, of which one process may hold many."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import gin

from mtf_models.config import active
from mtf_models.config.keys import Key, expand, render, statement
from mtf_models.config.names import from_gin, resolve, short
from mtf_models.config.statements import Binding, read
from mtf_models.configurable import REQUIRED, registered
from mtf_models.errors import ConfigError

_UNSET = inspect.Parameter.empty


class Difference(NamedTuple):
    """A parameter to which two configurations give different values; None is unset."""

    key: str
    ours: str | None
    theirs: str | None


@dataclass(frozen=True, eq=False)
class Config:
    """What gin files, bindings and flags came to.

    Attributes:
        bindings: each parameter to its value, references under their full names.
        macros: each macro to its value.
        files: the gin files read, included ones too, in order.
        params: the bindings given besides files.
        imports: modules that the files ask for and that parsing had no need of; whoever looks up
            tasks may import them.
        notices: lines about what was recognised and dropped.
    """

    bindings: Mapping[Key, Any] = field(repr=False)
    macros: Mapping[str, Any] = field(repr=False)
    files: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    _used: list[str] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bindings", MappingProxyType(dict(self.bindings)))
        object.__setattr__(self, "macros", MappingProxyType(dict(self.macros)))

    def active(self) -> AbstractContextManager[None]:
        """A `with` block in which gin's bindings are these; see `mtf_models.config.active.lend`.

        Build, trace and evaluate references inside it, not every step: the outermost block costs
        some milliseconds.
        """
        return active.lend(self._gin_text, self._record)

    def text(self) -> str:
        """All bindings as gin text: sorted, under the shortest names; equal text, equal config.

        It can be parsed again, and compared; a run folder keeps it.
        """
        return _written(
            dict(self.macros), {str(key): value for key, value in self.bindings.items()}
        )

    def operative_text(self) -> str:
        """As `text`, of all parameters used so far under `active()`, defaults included."""
        texts = [*self._used, active.used_of(self._gin_text)]
        macros: dict[str, Any] = {}
        bindings: dict[str, Any] = {}
        for text in texts:
            for binding in read(text, "operative configuration"):
                if isinstance(binding, Binding):
                    scope = f"{binding.scope}/" if binding.scope else ""
                    if binding.parameter:
                        name = short(from_gin(binding.selector))
                        bindings[f"{scope}{name}.{binding.parameter}"] = binding.value
                    else:
                        macros[scope + binding.selector] = binding.value
        return _written(macros, bindings)

    def query(self, name: str, default: Any = None) -> Any:
        """The value bound to a parameter or macro, macros and references evaluated.

        Args:
            name: `scope/selector.parameter`, or `%macro`; outer scopes count, as for gin.
            default: what to return if nothing is bound.

        Returns:
            The value; a reference `@name` is the class or function, `@name()` what it returns.

        Raises:
            ConfigError: if there is no such configurable.
        """
        if name.startswith("%"):
            found = name if name[1:] in self.macros else None
        else:
            key = _key(name)
            found = next((key.full() for key in key.outer() if key in self.bindings), None)
        if found is None:
            return default
        with self.active():
            # Copying is how gin evaluates references.
            return copy.deepcopy(gin.query_parameter(found))

    def differences(self, other: Config) -> list[Difference]:
        """The parameters that have different values, whatever the spelling, order or macros.

        An unset parameter has the value of the outer scopes, else the default of the signature.

        Args:
            other: the configuration to compare with.

        Returns:
            The differences, sorted by key; `ours` is this configuration's value.
        """
        found = []
        for key in sorted({*self.bindings, *other.bindings}, key=str):
            ours, theirs = self.effective(key), other.effective(key)
            if ours is not theirs and ours != theirs:
                values = [None if value is _UNSET else render(value) for value in (ours, theirs)]
                found.append(Difference(str(key), *values))
        return found

    def effective(self, key: Key) -> Any:
        """The value of a parameter in a scope, macros expanded and references left as they are.

        Args:
            key: if it is not bound, the outer scopes count, then the default of the signature.

        Returns:
            The value, or `inspect.Parameter.empty` if there is none.
        """
        for outer in key.outer():
            if outer in self.bindings:
                return expand(self.bindings[outer], self.macros)
        known = registered().get(key.selector)
        default = known.parameters.get(key.parameter, _UNSET) if known else _UNSET
        return _UNSET if default is REQUIRED else default

    @functools.cached_property
    def _gin_text(self) -> str:
        macros = [f"{name} = {value!r}" for name, value in self.macros.items()]
        return "\n".join([*macros, *(f"{k.full()} = {v!r}" for k, v in self.bindings.items())])

    def _record(self, used: str) -> None:
        if used not in self._used:
            self._used.append(used)


def _key(name: str) -> Key:
    scope, _, rest = name.rpartition("/")
    selector, _, parameter = rest.rpartition(".")
    if not selector:
        raise ConfigError(f"{name!r} is no parameter: write it as selector.parameter, or %macro")
    return Key(scope, resolve(selector).selector, parameter)


def _written(macros: Mapping[str, Any], bindings: Mapping[str, Any]) -> str:
    """Gin text: the macros, then the bindings, a blank line between configurables."""
    lines = [statement(name, value) for name, value in sorted(macros.items())]
    before = None
    for key, value in sorted(bindings.items(), key=lambda item: _order(item[0])):
        configurable = key.rpartition(".")[0]
        if configurable != before and lines:
            lines.append("")
        before = configurable
        lines.append(statement(key, value))
    return "".join(f"{line}\n" for line in lines)


def _order(key: str) -> tuple[str, str, str]:
    """Sorts by configurable, then scope, then parameter, as gin does."""
    scope, _, rest = key.rpartition("/")
    selector, _, parameter = rest.rpartition(".")
    return selector.lower(), scope, parameter
