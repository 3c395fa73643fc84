"""Statements checked against everything that can be bound: every fault found is reported at once.

A name is refused unless it is registered, or known from the original. What is known and not needed
here is dropped with a notice; what is known, wanted and missing is a fault.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mtf_models.config import legacy, macros
from mtf_models.config.keys import Key, expand, macros_in, references_in, render
from mtf_models.config.names import Kind, Name, historical, original, resolve, short, signature
from mtf_models.config.statements import Binding, Origin, Reference, map_leaves
from mtf_models.configurable import Registration
from mtf_models.errors import ConfigError, did_you_mean


class Checked(NamedTuple):
    """What is left of the statements: the last binding of each parameter, references resolved.

    Attributes:
        bindings: each parameter to its value.
        macros: each macro to its value.
        notices: lines about what was recognised and dropped.
    """

    bindings: dict[Key, Any]
    macros: dict[str, Any]
    notices: tuple[str, ...]


class _Value(NamedTuple):
    """A value and where it was bound."""

    value: Any
    origin: Origin


class _Lost(NamedTuple):
    """A binding that cannot be kept: it is harmless if the value is the default."""

    value: Any
    origin: Origin
    default: Any
    why: str


def check(bindings: Iterable[Binding], quiet: str = "") -> Checked:
    """Checks bindings and macro definitions, in the order in which they were read.

    Args:
        bindings: all of them; a later one replaces an earlier one.
        quiet: the file of our own defaults, about which there are no notices.

    Returns:
        What is to be bound.

    Raises:
        ConfigError: with every fault, where it stands, and the nearest known names.
    """
    checker = _Checker(quiet)
    for binding in bindings:
        checker.take(binding)
    return checker.finish()


class _Checker:
    """Collects what is kept, what is dropped, and what is wrong."""

    def __init__(self, quiet: str) -> None:
        self.quiet = quiet
        self.faults: dict[str, None] = {}
        self.without_effect: dict[str, None] = {}
        self.ignored: dict[str, None] = {}
        self.absent: dict[str, None] = {}
        self.unused: dict[str, None] = {}
        self.scopes: dict[str, None] = {}
        self.kept: dict[Key, list[_Value]] = {}
        self.lost: dict[Key, _Lost] = {}
        self.macros: dict[str, _Value] = {}
        self.used_macros: set[str] = set()

    def take(self, binding: Binding) -> None:
        """Sorts one statement in."""
        value = map_leaves(lambda leaf: self._resolved(leaf, binding.origin), binding.value)
        self.used_macros.update(macros_in(value))
        found = _Value(value, binding.origin)
        if not binding.parameter:
            scope = f"{binding.scope}/" if binding.scope else ""
            self.macros[scope + binding.selector] = found
            return
        try:
            name = resolve(binding.selector)
            if name.kind is Kind.SKIPPED:
                self._note(self.without_effect, binding.selector, binding.origin)
            else:
                self._sort(Key(binding.scope, name.selector, binding.parameter), name, found)
        except ConfigError as error:
            self._fault(binding.origin, str(error))

    def _resolved(self, leaf: Any, origin: Origin) -> Any:
        """A reference under its full name; any other part of a value as it is."""
        if not isinstance(leaf, Reference):
            return leaf
        try:
            return leaf.renamed(resolve(leaf.selector).selector)
        except ConfigError as error:
            self._fault(origin, f"in {leaf}: {error}")
            return leaf

    def _sort(self, key: Key, name: Name, found: _Value) -> None:
        """Decides what becomes of a binding whose configurable is known."""
        known = signature(name)
        ignored = legacy.WITHOUT_EFFECT.get(key.selector)
        renamed = legacy.RENAMED_PARAMETERS.get(f"{key.selector}.{key.parameter}")
        accepted = key.parameter in known.parameters or known.takes_any
        if accepted and name.kind is not Kind.ABSENT:
            if key.parameter in known.denied or _is_given_by_code(key, known):
                raise ConfigError(f"{key} is set by the program and cannot be bound")
            self.kept.setdefault(key, []).append(found)
        elif renamed:
            self._sort_renamed(key, renamed, found)
        elif accepted and ignored == ():
            self._note(self.without_effect, short(key.selector), found.origin)
        elif ignored and key.parameter in ignored:
            self._note(self.without_effect, str(key), found.origin)
        elif accepted and key.selector not in legacy.UNASKED:
            self._note(self.absent, short(key.selector), found.origin)
        else:
            self._lose(key, name, found)

    def _sort_renamed(self, old: Key, renamed: str, found: _Value) -> None:
        """Keeps a binding under today's name."""
        selector, _, parameter = renamed.rpartition(".")
        name = resolve(selector)
        if name.kind is Kind.ABSENT:
            self._note(self.absent, short(selector), found.origin)
        elif parameter not in signature(name).parameters:
            self._note(self.ignored, str(old), found.origin)
        else:
            self.kept.setdefault(Key(old.scope, selector, parameter), []).append(found)

    def _lose(self, key: Key, name: Name, found: _Value) -> None:
        """Notes a parameter that the original has, or had, and that does not exist here."""
        before = historical(key.selector)
        theirs = original()[key.selector].parameters if key.selector in original() else {}
        if key.parameter in before:
            why = "a parameter of the past, which cannot be reproduced"
            self.lost[key] = _Lost(*found, before[key.parameter], why)
        elif key.parameter in theirs:
            why = "a parameter of the original, not available in this version"
            self.lost[key] = _Lost(*found, theirs[key.parameter], why)
        else:
            known = signature(name).parameters
            near = did_you_mean(key.parameter, known) if known else "; it has none."
            raise ConfigError(f"{short(key.selector)} has no parameter {key.parameter!r}{near}")

    def finish(self) -> Checked:
        """Checks what depends on all statements together.

        Returns:
            What is kept.

        Raises:
            ConfigError: with all faults.
        """
        for name in macros.circular({name: found.value for name, found in self.macros.items()}):
            self._fault(self.macros.pop(name).origin, f"the macro {name} is defined by itself")
        values = {name: found.value for name, found in self.macros.items()}
        kept = self._meaningful(values)
        self._check_macros([*kept.values(), *self.macros.values()])
        self._check_scopes(kept)
        self._check_lost(values)
        self._check_references(kept, values)
        if self.faults:
            count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
            raise ConfigError(f"{count} in the configuration:" + "".join(self.faults))
        bindings = {key: found.value for key, found in kept.items()}
        defined = macros.needed(values, bindings.values())
        for value in (*bindings.values(), *defined.values()):
            _import_living(value)
        return Checked(bindings, defined, tuple(self._notices()))

    def _meaningful(self, values: Mapping[str, Any]) -> dict[Key, _Value]:
        """The last value of each parameter that does not ask for what means nothing any more.

        An old file's `run.mesh_shape = @tpu_mesh_shape()` thus leaves the mesh as it was.
        """
        meaningful = {}
        for key, bound in self.kept.items():
            while bound and any(map(_is_meaningless, _names(expand(bound[-1].value, values)))):
                dropped = bound.pop()
                what = f"{key} = {render(dropped.value)}"
                self._note(self.without_effect, what, dropped.origin)
            if bound:
                meaningful[key] = bound[-1]
        return meaningful

    def _check_macros(self, values: list[_Value]) -> None:
        """Finds macros that are undefined, or unused."""
        for found in values:
            for what in macros.undefined(found.value, self.macros):
                self._fault(found.origin, what)
        for name, near in macros.unused(self.macros, self.used_macros).items():
            if near:
                what = f"nothing uses the macro {name}; did you mean {near}?"
                self._fault(self.macros[name].origin, what)
            else:
                self.unused[name] = None

    def _check_scopes(self, kept: Mapping[Key, _Value]) -> None:
        """Finds scopes that are nearly those that the models, references or macros open."""
        values = [found.value for found in (*kept.values(), *self.macros.values())]
        opened = {s for value in values for ref in references_in(value) for s in ref.scopes}
        opened |= {part for name in self.macros for part in name.split("/")}
        bound = {scope: key for key in kept for scope in key.scope.split("/") if scope}
        for scope, near in macros.unused(bound, {*legacy.SCOPES, *opened}).items():
            if near:
                what = f"nothing opens the scope of {bound[scope]}; did you mean {near}?"
                self._fault(kept[bound[scope]].origin, what)
            else:
                self.scopes[scope] = None

    def _check_lost(self, values: Mapping[str, Any]) -> None:
        """Reports lost bindings; those that would change the model are faults."""
        for key, lost in self.lost.items():
            has_default = lost.default is not inspect.Parameter.empty
            if has_default and expand(lost.value, values) == lost.default:
                continue
            in_model = key.selector.rpartition(".")[0] in legacy.MODEL_MODULES
            if in_model and (has_default or key.parameter not in historical(key.selector)):
                self._fault(lost.origin, f"{key} = {render(lost.value)}: {lost.why}")
            else:
                self._note(self.ignored, str(key), lost.origin)

    def _check_references(self, kept: dict[Key, _Value], values: Mapping[str, Any]) -> None:
        """Finds references to what the original has and this version has not.

        What they would have read is given otherwise, or asked for where it is needed.
        """
        for key, found in list(kept.items()):
            absent = [n for n in _names(expand(found.value, values)) if n.kind is Kind.ABSENT]
            if absent and f"{key.selector}.{key.parameter}" in legacy.READERS:
                self._note(self.ignored, f"{key} = {render(found.value)}", found.origin)
                del kept[key]
                continue
            for name in absent:
                what = f"{key} asks for {short(name.selector)}"
                self._fault(found.origin, f"{what}, which is not available in this version")

    def _notices(self) -> Iterator[str]:
        for what, names in {
            "recognised, without effect here": self.without_effect,
            "not available in this version, and so ignored": self.ignored,
            "bound, but neither used nor available in this version": self.absent,
            "macros that nothing uses": self.unused,
            "scopes that no model of this package opens": self.scopes,
        }.items():
            if names:
                yield f"{what}: {', '.join(sorted(names, key=str.lower))}"

    def _note(self, notes: dict[str, None], what: str, origin: Origin) -> None:
        if origin.source != self.quiet:
            notes[what] = None

    def _fault(self, origin: Origin, what: str) -> None:
        self.faults[f"\n  {origin}: {what}"] = None


def _names(value: Any) -> list[Name]:
    """What the references in a value are; those that are faults already left out."""
    names = []
    for reference in references_in(value):
        try:
            names.append(resolve(reference.selector))
        except ConfigError:
            continue
    return names


def _is_given_by_code(key: Key, known: Registration) -> bool:
    """Whether only the program can know a value: one of the original's was never bound."""
    theirs = original().get(key.selector)
    required = known.parameters.get(key.parameter) is inspect.Parameter.empty
    return theirs is not None and required and key.parameter not in theirs.parameters


def _is_meaningless(name: Name) -> bool:
    return name.kind is Kind.SKIPPED or (
        name.kind is Kind.ABSENT and legacy.WITHOUT_EFFECT.get(name.selector) == ()
    )


def _import_living(value: Any) -> None:
    for name in _names(value):
        if name.kind is Kind.LIVING:
            signature(name)
