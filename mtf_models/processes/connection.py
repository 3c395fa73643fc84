"""Messages between two processes: JSON objects, one a line."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]


class Connection:
    """One end of a connection.

    Args:
        connected: the socket; it belongs to the connection from now on.
    """

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._lines = connected.makefile("rb")
        self._sending = threading.Lock()

    def send(self, kind: str, **content: Any) -> None:
        """Sends a message; to a process that is gone it sends nothing, which reading tells."""
        line = json.dumps({"kind": kind, **content}).encode() + b"\n"
        with self._sending, contextlib.suppress(OSError):
            self._socket.sendall(line)

    def receive(self, timeout: float | None) -> Message | None:
        """The next message.

        Args:
            timeout: how many seconds may pass without a byte; None for any number.

        Returns:
            The message; None if the other end is gone, or is none of ours.

        Raises:
            TimeoutError: if nothing comes.
        """
        try:
            self._socket.settimeout(timeout)
            line = self._lines.readline()
            found = json.loads(line) if line.endswith(b"\n") else None
        except TimeoutError:
            raise
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and "kind" in found else None

    def messages(self, silence: float) -> Iterator[Message]:
        """All messages until the other end is gone.

        Args:
            silence: after how many seconds without one it is given up.

        Raises:
            TimeoutError: then.
        """
        while (message := self.receive(silence)) is not None:
            yield message

    def close(self) -> None:
        """Ends the connection for both."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._lines.close()
        self._socket.close()
