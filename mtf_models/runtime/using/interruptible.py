"""Work that Ctrl-C can stop while TensorFlow computes."""

from __future__ import annotations

import contextvars
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")


def interruptible(work: Callable[[threading.Event], Result], notice: str) -> Result:
    """Does work in a thread of its own, for Python hears no signal while its first one computes.

    At the first Ctrl-C the work is asked to stop. At the second the process ends at once, by the
    signal: the interpreter cannot be left in order while TensorFlow computes in it.

    Args:
        work: takes an event, which is set when it is to stop where it can.
        notice: what is said at the first Ctrl-C, on standard error; empty for nothing.

    Returns:
        What the work returned.

    Raises:
        BaseException: what the work raised.
    """
    stop, done, context = threading.Event(), Future(), contextvars.copy_context()

    def fill() -> None:
        try:
            done.set_result(context.run(work, stop))
        except BaseException as failure:  # It is raised again where the work is waited for.
            done.set_exception(failure)

    try:
        threading.Thread(target=fill, name="work", daemon=True).start()
        wait([done])
    except KeyboardInterrupt:
        stop.set()
        if notice:
            print(notice, file=sys.stderr, flush=True)
        _wait_or_leave(done)
    return done.result()


def _wait_or_leave(done: Future[Result]) -> None:
    try:
        wait([done])
    except KeyboardInterrupt:
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
