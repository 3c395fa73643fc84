"""Where in the model we are: the variable scope and the running operation, one stack a thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from mtf_models.mesh.dimension import Dimension


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[str] = []
        self.stacked: list[Dimension] = []
        self.operations: list[str] = []
        self.in_kernel = False
        self.is_derived = True


_stack = _Stack()


@contextlib.contextmanager
def variable_scope(name: str) -> Iterator[str]:
    """Prefixes the names of variables made inside with `name/`; scopes nest.

    Yields:
        The full name of the scope.
    """
    _stack.scopes.append(name)
    try:
        yield current_scope()
    finally:
        _stack.scopes.pop()


@contextlib.contextmanager
def entered(path: str) -> Iterator[None]:
    """Puts the full scope `path` in the place of the present one; "" is the root."""
    saved, _stack.scopes = _stack.scopes, [path] if path else []
    try:
        yield
    finally:
        _stack.scopes = saved


@contextlib.contextmanager
def stacked_variables(dims: Sequence[Dimension]) -> Iterator[None]:
    """Variables made inside have `dims` in front of their own dimensions.

    Each entry along them is a variable of its own: so layers that know nothing of it become the
    members of an ensemble, and their inputs get the dimensions from the first variable on.
    """
    saved, _stack.stacked = _stack.stacked, list(dims)
    try:
        yield
    finally:
        _stack.stacked = saved


def stacked_dims() -> list[Dimension]:
    """What variables made now have in front."""
    return _stack.stacked


@contextlib.contextmanager
def running(operation: str) -> Iterator[bool]:
    """Notes that an operation runs; yields whether it is the outermost one."""
    _stack.operations.append(operation)
    try:
        yield len(_stack.operations) == 1
    finally:
        _stack.operations.pop()


@contextlib.contextmanager
def outermost() -> Iterator[None]:
    """Operations that run inside count as outermost ones."""
    saved, _stack.operations = _stack.operations, []
    try:
        yield
    finally:
        _stack.operations = saved


def current_scope() -> str:
    """The variable scope as a path, empty at the root."""
    return "/".join(_stack.scopes)


def full_name(name: str) -> str:
    """`name` under the current variable scope."""
    return "/".join([*_stack.scopes, name])


def current_place() -> str:
    """What to call the tensor that is made just now: scope and outermost operation."""
    return full_name(_stack.operations[0] if _stack.operations else "tensor")


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """Around what nobody derives: gradients of one's own are left out of its graph."""
    saved, _stack.is_derived = _stack.is_derived, False
    try:
        yield
    finally:
        _stack.is_derived = saved


def is_derived() -> bool:
    """Whether derivatives of what is computed just now may be taken."""
    return _stack.is_derived


@contextlib.contextmanager
def tracing_kernel() -> Iterator[None]:
    """Operations inside become one kernel."""
    saved, _stack.in_kernel = _stack.in_kernel, True
    try:
        yield
    finally:
        _stack.in_kernel = saved


def in_kernel() -> bool:
    """Whether operations become one kernel just now."""
    return _stack.in_kernel
