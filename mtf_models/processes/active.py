"""The group of processes that this one is in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from mtf_models.errors import ConfigError
from mtf_models.processes.cluster import Cluster
from mtf_models.processes.group import Group, failure_behind
from mtf_models.processes.meeting import SILENCE_SECONDS, START_SECONDS, meet

START_VARIABLE = "MTF_START_TIMEOUT"
SILENCE_VARIABLE = "MTF_SILENCE_TIMEOUT"
"""Environment variables: seconds that processes wait for each other, see `meeting`."""

_group = Group(Cluster(("localhost:1",), 0), {}, SILENCE_SECONDS)


def current() -> Group:
    """The group of this process; of it alone, unless it takes part in another one."""
    return _group


@contextlib.contextmanager
def taking_part(cluster: Cluster) -> Iterator[Group]:
    """Around a program that several processes run together: meets them, and leaves them.

    Args:
        cluster: who they are.

    Raises:
        ProcessError: if one of them does not come, or is gone before all are at their end.
        ConfigError: if a timeout in the environment is no number of seconds.
    """
    global _group
    waits = _seconds(START_VARIABLE, START_SECONDS), _seconds(SILENCE_VARIABLE, SILENCE_SECONDS)
    alone, _group = _group, meet(cluster, *waits)
    try:
        yield _group
        _end(_group)
    except BaseException as error:
        gone = failure_behind(_group, error)
        if gone is not None:
            raise gone from error
        if _group.stopping.stopped:
            _end(_group)
        else:
            _group.leave(" ".join(str(error).split()) or type(error).__name__)
        raise
    finally:
        _group.leave()
        _group = alone


def _end(group: Group) -> None:
    """Waits for the others: until they are at their end they need what this process holds."""
    group.gather("the end")
    group.leave()


def _seconds(variable: str, default: float) -> float:
    text = os.environ.get(variable, str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"{variable}={text} is no number of seconds; set for example 60.")
    return seconds
