"""Where all processes stop: a signal comes to one of them, and each is in some step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from mtf_models.errors import ProcessError


class _Sender(Protocol):
    def send(self, kind: str, **content: Any) -> None: ...


class Stopping:
    """Agrees on a step after which all processes stop.

    A step is common work, in which processes wait for each other. So the leader first asks all to
    begin no further step ("pause"), hears in which one each is ("at"), and lets them go on to the
    last of those ("until"). Steps cost nothing more for it as long as nobody asks to stop.

    Attributes:
        stopped: whether this process was told to stop.

    Args:
        count: how many processes there are.
        tell_all: sends a message to every process that this one is connected to: if it leads, to
            all others, else to the leader.
    """

    def __init__(self, count: int, tell_all: Callable[..., None]) -> None:
        self.stopped = False
        self._count = count
        self._tell_all = tell_all
        self._changed = threading.Condition()
        self._begun = 0
        self._paused = False
        self._asked: int | None = None
        self._until: tuple[int, int] | None = None
        self._at: list[int] = []
        self._given_up: str | None = None

    def ask(self, number: int, leads: bool) -> None:
        """Asks all processes to stop soon.

        Args:
            number: of the signal that is the reason.
            leads: whether this process is the leader.
        """
        with self._changed:
            if self._asked is not None:
                return
            self._asked = number
        if leads:
            self._pause_all(number)
        else:
            self._tell_all("stop", number=number)

    def after(self, step: int) -> int | None:
        """Between two steps: may wait until it is known where to stop.

        Args:
            step: how many steps were made.

        Returns:
            The number of the signal for which this is the step to stop after, else None.

        Raises:
            ProcessError: if another process is gone meanwhile.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._until or self._given_up or not self._paused or step < self._begun
            )
            if self._given_up:
                raise ProcessError(self._given_up)
            if self._until is not None and step >= self._until[0]:
                self.stopped = True
                return self._until[1]
            self._begun = max(self._begun, step + 1)
            return None

    def hear(self, message: dict[str, Any], sender: _Sender) -> None:
        """Takes a message about stopping."""
        match message["kind"]:
            case "stop":
                with self._changed:
                    known = self._asked is not None
                    self._asked = self._asked or message["number"]
                if not known:
                    self._pause_all(message["number"])
            case "pause":
                sender.send("at", step=self._pause())
            case "at":
                self._collect(message["step"])
            case "until":
                self._go_on(message["step"], message["number"])

    def give_up(self, text: str) -> None:
        """Ends all waiting: a process is gone."""
        with self._changed:
            self._given_up = text
            self._changed.notify_all()

    def _pause_all(self, number: int) -> None:
        self._asked = number
        self._tell_all("pause")
        self._collect(self._pause())

    def _pause(self) -> int:
        with self._changed:
            self._paused = True
            return self._begun

    def _collect(self, step: int) -> None:
        """Of the leader: once all have answered, the last step is known."""
        with self._changed:
            self._at.append(step)
            if len(self._at) < self._count:
                return
            last, number = max(self._at), self._asked
        self._tell_all("until", step=last, number=number)
        self._go_on(last, number)

    def _go_on(self, step: int, number: int) -> None:
        with self._changed:
            self._until = (step, number)
            self._changed.notify_all()
