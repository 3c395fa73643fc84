"""Starts the processes of a program on this machine, and sees to it that all of them end."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO

from mtf_models.processes.cluster import TF_CONFIG, Cluster
from mtf_models.processes.group import GRACE_SECONDS

_POLL_SECONDS = 0.1
_TAIL_LINES = 15


def free_addresses(count: int) -> tuple[str, ...]:
    """Addresses of this machine at which nothing listens."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(f"127.0.0.1:{each.getsockname()[1]}" for each in sockets)


@dataclass
class _Child:
    """A process that was started; `output` is None if what it prints is shown as it comes."""

    cluster: Cluster
    process: subprocess.Popen[bytes]
    output: IO[bytes] | None

    @property
    def name(self) -> str:
        return self.cluster.name(self.cluster.index)


class _Signals:
    """Passes the first signal on to the first process, which tells the others; kills all then."""

    def __init__(self, children: Sequence[_Child]) -> None:
        self._children = children
        self.number: int | None = None

    @contextlib.contextmanager
    def passed_on(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        former = {number: signal.signal(number, self._pass) for number in numbers}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _pass(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.number is None:
            self._children[0].process.send_signal(number)
        else:
            for child in self._children:
                child.process.kill()
        self.number = number


def launch(
    clusters: Sequence[Cluster], command: Sequence[str], environment: Mapping[str, str]
) -> int:
    """Runs a command in processes of this machine.

    What the first one prints is shown; of another one only what it printed last, if it dies.
    Once one has ended that should not have, the others have `GRACE_SECONDS` to say so and end,
    twice as long in all, before they are killed.

    Args:
        clusters: for each process to start, which one it is.
        command: program and words.
        environment: of the processes.

    Returns:
        The exit status: of the first process that failed, 128 and the number of a signal that
        killed it, else 0.
    """
    with contextlib.ExitStack() as stack:
        children: list[_Child] = []
        stack.callback(_kill, children)
        for cluster in clusters:
            output = stack.enter_context(tempfile.TemporaryFile()) if children else None
            variables = {**environment, TF_CONFIG: cluster.tf_config()}
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                start_new_session=True,  # Ctrl-C is for the launcher, which passes it on.
            )
            children.append(_Child(cluster, process, output))
        signals = _Signals(children)
        with signals.passed_on():
            failed = _first_failure(children)
            _wait_for_all(children, 2 * GRACE_SECONDS)
        if failed is None:
            return 0
        _report(failed, children[0])
    status = failed.process.returncode
    return status if status > 0 else 128 - status


def _first_failure(children: Sequence[_Child]) -> _Child | None:
    """Waits until all have ended well, or one has not."""
    while True:
        statuses = [child.process.poll() for child in children]
        failed = [c for c, s in zip(children, statuses, strict=True) if s not in (None, 0)]
        if failed:
            # Those that end because of another one may be the first to be seen here.
            return min(failed, key=lambda child: child.process.returncode >= 0)
        if None not in statuses:
            return None
        time.sleep(_POLL_SECONDS)


def _wait_for_all(children: Sequence[_Child], seconds: float) -> None:
    """Waits for those that are left, and kills what does not end."""
    deadline = time.monotonic() + seconds
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(max(deadline - time.monotonic(), 0.0))
            continue
        print(f"mtf: warning: killed {child.name}, which did not end.", file=sys.stderr)
        child.process.kill()
        child.process.wait()


def _kill(children: Sequence[_Child]) -> None:
    for child in children:
        if child.process.poll() is None:
            child.process.kill()
            child.process.wait()


def _report(failed: _Child, first: _Child) -> None:
    """Says how a process ended, as far as what the first one printed does not say it."""
    status = failed.process.returncode
    if status < 0:
        name = signal.Signals(-status).name
        print(f"mtf: error: {failed.name} was killed by {name}.", file=sys.stderr)
    if failed.output is not None and status != first.process.returncode:
        failed.output.seek(0)
        lines = failed.output.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        if lines:
            shown = "\n".join(f"  {line}" for line in lines)
            print(f"The last lines of {failed.name}:\n{shown}", file=sys.stderr)
