"""Turns what ended a command into one paragraph on standard error and an exit status."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback

from mtf_models.errors import MtfError
from mtf_models.runtime.training.stop import Stopped

RUN_FAILED = 1
ENDED_BY_SIGNAL = 128

# What gin adds to the message of an error that passes through it.
_GIN_TRAIL = re.compile(r"\n  In call to configurable .*")


def report(error: BaseException, *, debug: bool = False) -> int:
    """Says what ended a command.

    Args:
        error: an `MtfError` is a user's to mend and speaks for itself; so does an `OSError`, with
            its file; anything else is named with the first line of its message.
        debug: whether the traceback comes before that.

    Returns:
        The exit status.
    """
    if debug:
        traceback.print_exception(error)
    if isinstance(error, BrokenPipeError):
        # The reader of our output is gone: leave nothing that Python would flush into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return RUN_FAILED
    if isinstance(error, KeyboardInterrupt):
        number = error.number if isinstance(error, Stopped) else signal.SIGINT
        print(f"mtf: {str(error) or 'interrupted'}", file=sys.stderr)
        return ENDED_BY_SIGNAL + number
    print(f"mtf: error: {_paragraph(error)}", file=sys.stderr)
    return error.exit_status if isinstance(error, MtfError) else RUN_FAILED


def _paragraph(error: BaseException) -> str:
    if isinstance(error, MtfError):
        return _GIN_TRAIL.sub("", str(error))
    if isinstance(error, OSError) and error.strerror:
        return ": ".join([error.strerror, *map(str, filter(None, (error.filename,)))])
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line} (--debug shows the traceback)"
