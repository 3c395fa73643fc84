"""Gin text read into statements, with files and line numbers, without touching gin's state."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from gin import config_parser

from mtf_models.errors import ConfigError


@dataclass(frozen=True, repr=False)
class Reference:
    """`@scope/name` in a value, or `@scope/name()`, which stands for what the call returns."""

    name: str
    evaluate: bool

    @property
    def selector(self) -> str:
        """The name without its scopes."""
        return self.name.rpartition("/")[2]

    @property
    def scopes(self) -> list[str]:
        """The scopes, from outer to inner."""
        return self.name.split("/")[:-1]

    def renamed(self, selector: str) -> Reference:
        """The same reference, to another configurable."""
        scope, slash, _ = self.name.rpartition("/")
        return Reference(f"{scope}{slash}{selector}", self.evaluate)

    def __repr__(self) -> str:
        return f"@{self.name}{'()' if self.evaluate else ''}"


@dataclass(frozen=True, repr=False)
class Macro:
    """`%name` in a value."""

    name: str

    def __repr__(self) -> str:
        return f"%{self.name}"


class Origin(NamedTuple):
    """Where a statement stands: a file, or the flag that held it, and a line."""

    source: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


class Binding(NamedTuple):
    """`scope/selector.parameter = value`; a macro definition has no parameter."""

    scope: str
    selector: str
    parameter: str
    value: Any
    origin: Origin


class Import(NamedTuple):
    """`import module`, in any of its spellings."""

    module: str
    origin: Origin


class Include(NamedTuple):
    """`include 'path'`."""

    path: str
    origin: Origin


Statement = Binding | Import | Include


class _Values(config_parser.ParserDelegate):
    """Keeps references and macros as they are written."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
        return Reference(scoped_configurable_name, evaluate)

    def macro(self, macro_name: str) -> Macro:
        return Macro(macro_name)


def read(text: str, source: str) -> Iterator[Statement]:
    """The statements of a gin text, in order.

    Args:
        text: what a gin file or flag holds.
        source: the file's path, or the flag, for messages.

    Yields:
        One statement after the other.

    Raises:
        ConfigError: if the text is no gin; the statements before the fault were yielded.
    """
    try:
        for statement in config_parser.ConfigParser(io.StringIO(text), _Values()):
            # The head of an indented group says nothing that its bindings do not repeat.
            if not isinstance(statement, config_parser.BlockDeclaration):
                yield _ours(statement, source)
    except SyntaxError as error:
        line = error.args[1][1] if len(error.args) > 1 else 0
        raise ConfigError(f"{Origin(source, line)}: this is no gin: {_reason(error)}") from error
    except tokenize.TokenError as error:
        raise ConfigError(f"{Origin(source, error.args[1][0])}: {error.args[0]}") from error


def _reason(error: SyntaxError) -> str:
    """What gin says of a text, less what it says of Python's syntax trees."""
    said = error.msg.splitlines()
    return " ".join(line.strip() for line in said if "<ast." not in line)


def _ours(statement: Any, source: str) -> Statement:
    """One of gin's statements as one of ours."""
    origin = Origin(source, statement.location.line_num)
    match statement:
        case config_parser.BindingStatement():
            scope, selector = statement.scope, statement.selector
            return Binding(scope, selector, statement.arg_name, statement.value, origin)
        case config_parser.ImportStatement():
            return Import(statement.module, origin)
        case _:
            return Include(statement.filename, origin)


def leaves(value: Any) -> Iterator[Any]:
    """Everything in a value that is no list, tuple or dict, keys of dicts included."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """The value with every leaf replaced by what the function makes of it."""
    if isinstance(value, dict):
        return {
            map_leaves(function, key): map_leaves(function, item) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(map_leaves(function, item) for item in value)
    return function(value)
