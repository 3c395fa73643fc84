"""Ctrl-C and SIGTERM during a run: noted when they come, heeded where the run can be left."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from mtf_models import processes

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Stopped(KeyboardInterrupt):
    """A signal was heeded, at a place where the run can be left and taken up again.

    Args:
        number: the number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(_WORDS[number])
        self.number = number


class StopSignals:
    """Notes the first signal; the second one does what it does elsewhere."""

    def __init__(self) -> None:
        self._came: int | None = None
        self._heeded_at_once = False
        self._former = {number: signal.getsignal(number) for number in _WORDS}

    def listen(self) -> None:
        """Takes the signals over."""
        for number in _WORDS:
            signal.signal(number, self._note)

    def restore(self) -> None:
        """Hands the signals back."""
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def check(self, step: int) -> None:
        """Between two steps.

        Args:
            step: how many were made; several processes stop after the same one.

        Raises:
            Stopped: if a signal came.
        """
        number, group = self._came, processes.current()
        if group.count > 1:
            if number is not None:
                group.stopping.ask(number, group.leads)
            number = group.stopping.after(step)
        if number is not None:
            raise Stopped(number)

    @contextlib.contextmanager
    def heeded_at_once(self) -> Iterator[None]:
        """Around work that may be left anywhere, such as an evaluation.

        Not by one of several processes: the others would wait for it.
        """
        self._heeded_at_once = processes.current().count == 1
        try:
            if self._heeded_at_once and self._came is not None:
                raise Stopped(self._came)
            yield
        finally:
            self._heeded_at_once = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._came = number
        self.restore()
        if self._heeded_at_once:
            raise Stopped(number)
        # Printing is not safe in a signal handler.
        os.write(2, b"\nStopping after this step. Once more stops at once, without saving.\n")


@contextlib.contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Around a run whose state is whole only between its steps."""
    signals = StopSignals()
    if threading.current_thread() is threading.main_thread():  # No other may set handlers.
        signals.listen()
    try:
        yield signals
    finally:
        if threading.current_thread() is threading.main_thread():
            signals.restore()
