"""What the package logs, shown on standard error to whoever typed a command."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Lines(logging.Formatter):
    """A plain line; a warning says that it is one."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        return f"mtf: warning: {text}" if record.levelno >= logging.WARNING else text


@contextmanager
def log_lines() -> Iterator[None]:
    """Shows the package's log, from INFO on, while a command runs."""
    logger = logging.getLogger("mtf_models")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # Libraries give the root logger a handler too.
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.propagate = propagate
        logger.removeHandler(handler)
