"""What the processes of one program tell each other while it runs.

Process 0 leads: every other one has a connection to it. A thread of each connection hears what
comes, so that a process answers in the midst of a step, and notices when another one is gone.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from mtf_models.errors import MtfError, ProcessError
from mtf_models.processes.cluster import Cluster
from mtf_models.processes.connection import Connection, Message
from mtf_models.processes.stopping import Stopping

GRACE_SECONDS = 10.0
"""How long a process has, after another one is gone, to end by itself."""

_BEATS_IN_SILENCE = 6
"""How many signs of life a process gives in the time after which it would be given up."""


class Group:
    """The processes, seen from one of them. A process alone is a group too, which never waits.

    Attributes:
        index: of this process.
        count: how many there are.

    Args:
        cluster: who they are.
        connections: to every other process if this one leads, else to the one that does; by index.
        silence: after how many seconds without a sign of life a process is given up.
    """

    def __init__(
        self, cluster: Cluster, connections: Mapping[int, Connection], silence: float
    ) -> None:
        self.cluster = cluster
        self.index, self.count = cluster.index, cluster.count
        self.stopping = Stopping(self.count, self._tell_all)
        self._connections = dict(connections)
        self._silence = silence
        self._changed = threading.Condition()
        self._failure: str | None = None
        self._left: set[int] = set()
        self._closed = threading.Event()
        self._round = 0
        self._values: dict[int, dict[int, Any]] = {}
        for other, connection in self._connections.items():
            self._start(self._listen, other, connection)
        if self._connections:
            self._start(self._beat)

    @property
    def leads(self) -> bool:
        """Whether this process reports, and writes what is written once."""
        return self.index == 0

    def gather(self, topic: str, value: Any = None) -> list[Any]:
        """Waits for all processes, and gives each the values of all, in the order of the indices.

        Args:
            topic: what it is about, the same in every process.
            value: of this process, as JSON can hold it.

        Raises:
            ProcessError: if a process is gone, or is at another topic.
        """
        if self.count == 1:
            return [value]
        with self._changed:
            self._round += 1
            number = self._round
        self._note(number, self.index, [topic, value])
        if not self.leads:
            self._connections[0].send("value", round=number, value=[topic, value])
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._complete(number) or self._left)
            if not self._complete(number):
                raise ProcessError(self._failure or self._early(topic))
            found = self._values.pop(number)
        topics = {i: found[i][0] for i in sorted(found)}
        if len(set(topics.values())) > 1:
            where = ", ".join(f"{self.cluster.name(i)} is at {t!r}" for i, t in topics.items())
            raise ProcessError(f"The processes do not run the same program: {where}.")
        return [found[i][1] for i in sorted(found)]

    def together(self, topic: str, work: Callable[[], Any]) -> list[Any]:
        """Does something in every process; where it fails in one, it fails in all.

        Args:
            topic: what it is.
            work: what this process does; gives what JSON can hold.

        Returns:
            The results of all.

        Raises:
            ProcessError: if it failed elsewhere; what `work` raises, if it failed here.
        """
        result, failed = None, None
        try:
            result = work()
        except Exception as error:
            failed = error
        found = self.gather(topic, [str(failed) if failed else None, result])
        if failed is not None:
            raise failed
        for index, (text, _) in enumerate(found):
            if text is not None:
                raise ProcessError(f"P{self.cluster.name(index)[1:]} failed: {text}")
        return [value for _, value in found]

    def leave(self, error: str | None = None) -> None:
        """Ends this process's part; again it does nothing.

        Args:
            error: what ended it, if it did not come to its end; the others end too then.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        self._tell_all("end", error=error)
        for connection in self._connections.values():
            connection.close()

    def failure_within(self, seconds: float) -> str | None:
        """Which process is gone, and why, if that becomes known in this time."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure, seconds)
            return self._failure

    def _early(self, topic: str) -> str:
        names = ", ".join(self.cluster.name(i) for i in sorted(self._left))
        return f"The processes do not run the same program: {names} ended before {topic!r}."

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=work, args=args, daemon=True, name="processes").start()

    def _beat(self) -> None:
        while not self._closed.wait(self._silence / _BEATS_IN_SILENCE):
            self._tell_all("beat")

    def _tell_all(self, kind: str, **content: Any) -> None:
        """Tells every process that this one has a connection to."""
        for connection in self._connections.values():
            connection.send(kind, **content)

    def _listen(self, other: int, connection: Connection) -> None:
        try:
            for message in connection.messages(self._silence):
                self._hear(other, message)
        except TimeoutError:
            self._fail(other, f"has given no sign of life for {self._silence:g} seconds")
            return
        if other not in self._left:
            self._fail(other, "has died: its connection broke")

    def _hear(self, other: int, message: Message) -> None:
        match message["kind"]:
            case "value":
                self._note(message["round"], other, message["value"])
            case "values":
                with self._changed:
                    self._values[message["round"]] = dict(enumerate(message["values"]))
                    self._changed.notify_all()
            case "end":
                with self._changed:
                    self._left.add(other)
                    self._changed.notify_all()
                if message["error"] is not None:
                    self._fail(other, f"ended: {message['error']}")
            case "failed":
                self._left.add(other)
                self._fail_with(message["text"])
            case "stop" | "pause" | "at" | "until":
                self.stopping.hear(message, self._connections[other])

    def _note(self, number: int, index: int, value: Any) -> None:
        """Notes what a process gave in a round; the leader, once it has all, gives them out."""
        with self._changed:
            given = self._values.setdefault(number, {})
            given.setdefault(index, value)
            whole = self.leads and len(given) == self.count
            values = [given[i] for i in sorted(given)]
            self._changed.notify_all()
        if whole:
            self._tell_all("values", round=number, values=values)

    def _complete(self, number: int) -> bool:
        return len(self._values.get(number, {})) == self.count

    def _fail(self, other: int, what: str) -> None:
        self._fail_with(f"P{self.cluster.name(other)[1:]} {what}")

    def _fail_with(self, text: str) -> None:
        """Notes that a process is gone, tells the others, and sees to it that this one ends."""
        if self._closed.is_set():
            return
        with self._changed:
            if self._failure is not None:
                return
            self._failure = text
            self._changed.notify_all()
        self.stopping.give_up(text)
        if self.leads:
            self._tell_all("failed", text=text)
        if not self._closed.wait(GRACE_SECONDS):
            print(f"mtf: error: {text}", file=sys.stderr, flush=True)
            # The main thread waits for the process that is gone, and nothing else would end it.
            os._exit(ProcessError.exit_status)


def failure_behind(group: Group, error: BaseException) -> ProcessError | None:
    """That another process is gone, if this is why something failed in this one.

    Args:
        group: of the processes.
        error: what failed here.
    """
    if group.count == 1 or isinstance(error, MtfError | KeyboardInterrupt | SystemExit):
        return None
    text = group.failure_within(GRACE_SECONDS / 2)
    return None if text is None else ProcessError(text)
