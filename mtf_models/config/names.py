"""Which configurable a selector means: ours, one of a living package, or one of the original."""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple

import gin

from mtf_models.config import legacy, original_names
from mtf_models.config.nearest import nearest
from mtf_models.configurable import Registration, registered, signature_of
from mtf_models.errors import ConfigError

_BUILTINS = ("gin.constant", "gin.macro", "gin.singleton")

_skipping: ContextVar[tuple[frozenset[str], bool]] = ContextVar(
    "skipping", default=(frozenset(), False)
)


class Kind(enum.Enum):
    """What a selector can turn out to be."""

    OURS = "registered by this package"
    LIVING = "registered by a package that still exists, once it is imported"
    FOREIGN = "registered with gin by somebody else"
    ABSENT = "a name of the original that this package does not have"
    SKIPPED = "a name that was gone from the original already"


class Name(NamedTuple):
    """A selector that was resolved: its full spelling, and what it is.

    The spelling of a `FOREIGN` one is left as it is: gin tells nobody the full one.
    """

    selector: str
    kind: Kind


def resolve(selector: str) -> Name:
    """Finds what a selector means, by gin's rule: any suffix that is not ambiguous.

    Args:
        selector: a name with any number of its modules, and without scopes.

    Returns:
        The full name, today's where an old file uses an older one.

    Raises:
        ConfigError: if nothing has that name, or several have; the message says what is near.
    """
    current = _matching(selector, {**original(), **_living(), **registered()})
    if len(current) > 1:
        known = " or ".join(short(name) for name in current)
        raise ConfigError(f"{selector!r} is ambiguous: write {known}")
    for name in current or _matching(selector, legacy.RENAMED):
        today = legacy.RENAMED.get(name, name)
        return Name(today, _kind(today))
    if _registered_elsewhere(selector):
        return Name(selector, Kind.FOREIGN)
    skipped = _matching(selector, legacy.SKIPPED)
    if skipped:
        return Name(skipped[0], Kind.SKIPPED)
    if _skipped_here(selector):
        return Name(selector, Kind.SKIPPED)
    known = [*registered(), *original(), *_living()]
    raise ConfigError(
        f"there is no configurable {selector!r}{nearest(selector, map(short, known))}"
    )


@contextlib.contextmanager
def skipping(names: Iterable[str] = (), everything: bool = False) -> Iterator[None]:
    """Unknown configurables are skipped with a notice, as those that are gone from the original.

    Args:
        names: which ones, exactly as they are written.
        everything: whether all are.
    """
    token = _skipping.set((frozenset(names), everything))
    try:
        yield
    finally:
        _skipping.reset(token)


def _skipped_here(selector: str) -> bool:
    names, everything = _skipping.get()
    return everything or selector in names


def signature(name: Name) -> Registration:
    """The parameters of a configurable; a living one is imported for it.

    Args:
        name: of any kind but `SKIPPED`.

    Returns:
        Its parameters and their defaults.

    Raises:
        ConfigError: if the package that registers it cannot be imported.
    """
    if name.kind is Kind.OURS:
        return registered()[name.selector]
    if name.kind is Kind.ABSENT:
        return original()[name.selector]
    if name.kind is Kind.LIVING:
        import_module(name.selector.rpartition(".")[0])
    with gin.config_scope(None):
        parameters, takes_any = signature_of(gin.get_configurable(name.selector))
    return Registration(name.selector, parameters, takes_any, frozenset())


def import_module(module: str) -> None:
    """Imports a module that registers configurables.

    Raises:
        ConfigError: if there is none, or it cannot be imported here.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"the module {module} cannot be imported: {error}") from error


def historical(selector: str) -> Mapping[str, Any]:
    """The parameters that a configurable of today once had; defaults as in `Registration`."""
    return parse_signature(legacy.HISTORICAL_PARAMETERS.get(selector, ""))[0]


def short(selector: str) -> str:
    """The shortest suffix of a full name that means only it; of a method, `Class.method`.

    Names that somebody else has registered stay as they are.

    All names of the original count, whether they are registered or not, so that a configuration is
    written in the same way whatever has been imported.
    """
    known = {*original(), *_living(), *registered(), *_BUILTINS}
    if selector not in known:
        return selector
    components = selector.split(".")
    least = 2 if len(components) == 2 else 1
    for length in range(least, len(components)):
        suffix = ".".join(components[-length:])
        if _matching(suffix, known) == [selector]:
            return suffix
    return selector


def from_gin(selector: str) -> str:
    """The full name of a selector that gin wrote: the shortest among those that are registered."""
    ours = _matching(selector, registered())
    return ours[0] if len(ours) == 1 else selector


@functools.cache
def original() -> Mapping[str, Registration]:
    """Everything that could be bound in the original and does not exist any more."""
    by_class = {
        name: text for names in original_names.SIGNATURES.values() for name, text in names.items()
    }
    found = {}
    for module, names in original_names.SIGNATURES.items():
        for name, text in names.items():
            parameters, parent = parse_signature(text)
            while parent:
                inherited, parent = parse_signature(by_class[parent])
                parameters = {**inherited, **parameters}
            selector = f"{module}.{name}"
            found[selector] = Registration(selector, parameters, False, frozenset())
    return MappingProxyType(found)


def parse_signature(text: str) -> tuple[dict[str, Any], str | None]:
    """Reads a line of the tables of old names.

    Args:
        text: parameters as in Python, `**Name` for what is handed on to that class.

    Returns:
        Name to default, `inspect.Parameter.empty` where there is none or it is no literal; and the
        class that the remaining arguments go to.
    """
    function = ast.parse(f"def signature(*, _, {text}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    parameters = {
        argument.arg: _literal(default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    del parameters["_"]
    return parameters, arguments.kwarg.arg if arguments.kwarg else None


def _literal(node: ast.expr | None) -> Any:
    try:
        return inspect.Parameter.empty if node is None else ast.literal_eval(node)
    except ValueError:
        return inspect.Parameter.empty


@functools.cache
def _living() -> Mapping[str, str]:
    """Full name to module, of what living packages register."""
    return {
        f"{module}.{name}": module
        for module, names in original_names.LIVING.items()
        for name in names
    }


def _kind(selector: str) -> Kind:
    if selector in registered():
        return Kind.OURS
    return Kind.LIVING if selector in _living() else Kind.ABSENT


def _matching(suffix: str, names: Iterable[str]) -> list[str]:
    """The names that end in the components of the suffix; only the name itself, if it is there."""
    names = list(names)
    if suffix in names:
        return [suffix]
    return [name for name in names if name.endswith(f".{suffix}")]


def _registered_elsewhere(selector: str) -> bool:
    try:
        with gin.config_scope(None):
            gin.get_configurable(selector)
    except ValueError:
        return False
    except KeyError as error:
        raise ConfigError(str(error.args[0])) from error
    return True
