"""How the processes of a program find each other, before any of them starts TensorFlow.

They meet at the address of process 0. The port is free again once all are there, for TensorFlow.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time

from mtf_models.errors import ProcessError
from mtf_models.processes.cluster import Cluster, host_and_port
from mtf_models.processes.connection import Connection
from mtf_models.processes.group import Group

START_SECONDS = 300.0
"""How long processes wait for each other at the start, unless told otherwise."""

SILENCE_SECONDS = 60.0
"""After how long without a sign of life a process is given up, unless told otherwise."""

_RETRY_SECONDS = 0.1
_HELLO_SECONDS = 5.0


def meet(cluster: Cluster, wait: float = START_SECONDS, silence: float = SILENCE_SECONDS) -> Group:
    """Waits until all processes are there.

    Args:
        cluster: who they are.
        wait: for at most so many seconds.
        silence: see `Group`.

    Raises:
        ProcessError: naming those that did not come, or that were started with other addresses.
    """
    if cluster.count == 1:
        return Group(cluster, {}, silence)
    deadline = time.monotonic() + wait
    if cluster.index == 0:
        return Group(cluster, _receive_all(cluster, wait, deadline), silence)
    return Group(cluster, {0: _report(cluster, wait, deadline)}, silence)


def _receive_all(cluster: Cluster, wait: float, deadline: float) -> dict[int, Connection]:
    """Of process 0: waits for the others."""
    came: dict[int, Connection] = {}
    try:
        with _listening(cluster) as listener:
            while len(came) < cluster.count - 1:
                _receive_one(cluster, listener, came, wait, deadline)
    except ProcessError as error:
        for connection in came.values():
            connection.send("refused", text=str(error))
            connection.close()
        raise
    for connection in came.values():
        connection.send("welcome")
    return came


def _receive_one(
    cluster: Cluster,
    listener: socket.socket,
    came: dict[int, Connection],
    wait: float,
    deadline: float,
) -> None:
    listener.settimeout(max(deadline - time.monotonic(), 0.001))
    try:
        connection = Connection(listener.accept()[0])
    except TimeoutError:
        missing = [i for i in range(1, cluster.count) if i not in came]
        names = ", ".join(map(cluster.name, missing))
        raise ProcessError(
            f"Of {cluster.count} processes, {names} did not come within {wait:g} seconds. Start "
            "all of them, each with the same addresses and its own index, or wait longer with "
            "--start_timeout."
        ) from None
    with contextlib.suppress(TimeoutError):
        hello = connection.receive(_HELLO_SECONDS)
        if hello is not None and {"addresses", "index"} <= hello.keys():
            fault = _hello_fault(cluster, hello["addresses"], hello["index"], came)
            if fault is not None:
                connection.send("refused", text=fault)
                connection.close()
                raise ProcessError(fault)
            came[hello["index"]] = connection
            return
    connection.close()  # It is none of ours.


def _hello_fault(
    cluster: Cluster, addresses: list[str], index: int, came: dict[int, Connection]
) -> str | None:
    if tuple(addresses) != cluster.addresses:
        return (
            f"A process came that takes itself for number {index} of {', '.join(addresses)}; "
            f"process 0 knows {', '.join(cluster.addresses)}. Start all with the same addresses."
        )
    if index in came or index == 0:
        return f"Two processes take themselves for {cluster.name(index)}: give each its own index."
    return None


@contextlib.contextmanager
def _listening(cluster: Cluster):
    host, port = host_and_port(cluster.addresses[0])
    try:
        listener = socket.create_server((host if _is_loopback(host) else "", port))
    except OSError as error:
        raise ProcessError(
            f"Process 0 cannot listen at {cluster.addresses[0]}: {error.strerror}. Give it "
            "another port."
        ) from None
    with listener:
        yield listener


def _report(cluster: Cluster, wait: float, deadline: float) -> Connection:
    """Of every other process: reports at process 0 and waits until all are there."""
    connection = _reach(cluster, wait, deadline)
    connection.send("hello", index=cluster.index, addresses=list(cluster.addresses))
    try:
        # Process 0 says who did not come, if it is there to say so.
        answer = connection.receive(max(deadline - time.monotonic(), 0.0) + _HELLO_SECONDS)
    except TimeoutError:
        answer = None
    if answer is not None and answer["kind"] == "welcome":
        return connection
    connection.close()
    if answer is not None and answer["kind"] == "refused":
        raise ProcessError(answer["text"])
    raise ProcessError(f"P{cluster.name(0)[1:]} was there, and is gone or gives no answer.")


def _reach(cluster: Cluster, wait: float, deadline: float) -> Connection:
    address = host_and_port(cluster.addresses[0])
    while True:
        left = deadline - time.monotonic()
        try:
            return Connection(socket.create_connection(address, timeout=max(left, 0.001)))
        except OSError as error:
            if left <= 0:
                raise ProcessError(
                    f"P{cluster.name(0)[1:]} cannot be reached within {wait:g} seconds: "
                    f"{error.strerror or error}. Start it, or correct its address."
                ) from None
        time.sleep(min(_RETRY_SECONDS, max(left, 0.0)))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
