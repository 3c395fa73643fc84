"""Gin's one global state, lent to one configuration at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import gin

from mtf_models.errors import ConfigError

_lock = threading.RLock()


class _Loan(NamedTuple):
    """Who has gin's state: the text that was parsed, and who wants to know what was used of it."""

    text: str
    used: Callable[[str], None]


_loans: list[_Loan] = []


@contextmanager
def lend(text: str, used: Callable[[str], None]) -> Iterator[None]:
    """Makes gin's bindings those of a text, for the time of a `with` block.

    Other threads wait. Blocks may be nested; one with the text that is active already costs
    nothing, the outermost one some milliseconds. Afterwards gin holds what it held before (of
    bindings made outside this package, those that can be written as text).

    Args:
        text: bindings under full names.
        used: is given the operative configuration, as text, when the state is handed on.

    Yields:
        Nothing.

    Raises:
        ConfigError: if gin refuses the text.
    """
    with _lock:
        if _loans and _loans[-1].text == text:
            yield
            return
        outside, was_locked = ("", False) if _loans else (gin.config_str(), gin.config_is_locked())
        _hand_over()
        _loans.append(_Loan(text, used))
        try:
            _apply(text)
            yield
        finally:
            _hand_over()
            _loans.pop()
            _apply(_loans[-1].text if _loans else outside)
            if was_locked:
                gin.finalize()


def used_of(text: str) -> str:
    """The operative configuration of a text so far, if it is the active one; else nothing."""
    with _lock:
        is_active = _loans and _loans[-1].text == text
        return gin.operative_config_str() if is_active else ""


def _hand_over() -> None:
    """Tells the holder of the state what was used of it."""
    if _loans:
        _loans[-1].used(gin.operative_config_str())


def _apply(text: str) -> None:
    gin.clear_config()
    try:
        gin.parse_config(text)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"gin refuses the configuration: {error}") from error
