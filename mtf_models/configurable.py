"""The decorator that lets gin files set the arguments of our classes and functions.

Everything is registered under the module path that the original package gave it, since gin files
and operative configs speak those paths: gin resolves any suffix of them that is not ambiguous.
This module knows gin and nothing of ours.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import gin

REQUIRED = gin.REQUIRED
"""As a default value: the argument must come from the caller or from a binding."""

config_scope = gin.config_scope
"""`with config_scope("encoder"):` prefers what is bound in that scope."""

Target = TypeVar("Target", bound=Callable[..., Any])


class Registration(NamedTuple):
    """What is known of one configurable.

    Attributes:
        selector: its full name, `<module>.<name>`.
        parameters: name to default value; `inspect.Parameter.empty` where there is none.
        takes_any: whether it takes keyword arguments of any name.
        denied: the parameters that only code may set.
    """

    selector: str
    parameters: Mapping[str, Any]
    takes_any: bool
    denied: frozenset[str]


_registered: dict[str, Registration] = {}


def configurable(
    module: str, name: str | None = None, denylist: Sequence[str] = ()
) -> Callable[[Target], Target]:
    """Registers a class or function, so that gin files can bind its parameters.

    A class is changed in place: its constructor looks up the bindings. A subclass that calls
    `super().__init__` thus inherits what is bound for its parent, which old files rely on
    (`EncDecAttention` takes `SelfAttention.num_heads`).

    A function may be registered as a method: `module="Bitransformer", name="decode"` is bound as
    `Bitransformer.decode.beam_size`.

    Args:
        module: the module path of the original, such as `mesh_tensorflow.transformer.transformer`.
        name: the name below it; that of the class or function unless given.
        denylist: parameters that only code may set.

    Returns:
        A decorator that returns the class itself, or the wrapped function.

    Raises:
        ValueError: if something else is registered under this name.
    """

    def register(target: Target) -> Target:
        selector = f"{module}.{name or target.__name__}"
        parameters, takes_any = signature_of(target)
        wrapped = gin.configurable(
            name or target.__name__, module=module, denylist=list(denylist) or None
        )(target)
        _registered[selector] = Registration(selector, parameters, takes_any, frozenset(denylist))
        return wrapped

    return register


def registered() -> Mapping[str, Registration]:
    """Everything registered so far through `configurable`, by its full name."""
    return MappingProxyType(_registered)


def signature_of(target: Callable[..., Any]) -> tuple[dict[str, Any], bool]:
    """The parameters that can be bound, with their defaults, and whether any name can.

    A class whose constructor hands keyword arguments on to `super().__init__` takes those of its
    parents too.

    Args:
        target: a class or function, wrapped by gin or not.

    Returns:
        Name to default value, and whether there are keyword arguments of any name.
    """
    constructors = [target]
    if inspect.isclass(target):
        ours = [base for base in target.__mro__ if base is not object and "__init__" in vars(base)]
        constructors = [vars(base)["__init__"] for base in ours]
    found: dict[str, Any] = {}
    for constructor in constructors:
        parameters = list(inspect.signature(constructor).parameters.values())
        if inspect.isclass(target):
            parameters = parameters[1:]
        for parameter in parameters:
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                found.setdefault(parameter.name, parameter.default)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return found, False
    return found, bool(constructors)
