"""Which commands several processes run together, and what of it those show that do not lead."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

from mtf_models.errors import ConfigError
from mtf_models.processes import Cluster, taking_part
from mtf_models.processes.cluster import TF_CONFIG, from_environment

TOGETHER = ("train", "eval")
"""Commands that run in several processes."""

_ALONE = ("launch", "inspect", "doctor")
"""Commands to which it is all the same whether there are other processes."""


def check_command(name: str) -> None:
    """Refuses a command that cannot run in several processes.

    Raises:
        ConfigError: if it is none of `TOGETHER`.
    """
    if name not in TOGETHER:
        raise ConfigError(
            f"mtf {name} runs in one process; several run {' and '.join(TOGETHER)} together. "
            f"Run it without mtf launch, and with {TF_CONFIG} unset."
        )


@contextlib.contextmanager
def in_its_group(name: str) -> Iterator[None]:
    """Around a command: if it is one of several processes, they meet and it takes its part.

    Args:
        name: of the command.

    Raises:
        ConfigError: if the environment speaks of several processes and the command runs in one.
        ProcessError: if another process does not come, or is gone.
    """
    cluster = None if name in _ALONE else from_environment(os.environ)
    if cluster is None:
        yield
        return
    check_command(name)
    with taking_part(cluster), _reporting_once(cluster):
        yield


@contextlib.contextmanager
def _reporting_once(cluster: Cluster) -> Iterator[None]:
    """Lets the first process alone print and log; errors are told in any case."""
    if cluster.index == 0:
        yield
        return
    leader = cluster.name(0)
    print(
        f"This is {cluster.name(cluster.index)} of {cluster.count}; {leader} reports.", flush=True
    )
    logger = logging.getLogger("mtf_models")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    finally:
        logger.setLevel(level)
