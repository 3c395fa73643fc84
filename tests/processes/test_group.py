"""Processes on this machine that talk to each other; none of them needs TensorFlow."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mtf_models.processes import Cluster
from mtf_models.processes.launcher import free_addresses

MEMBER = Path(__file__).with_name("member.py")
ENOUGH = 120  # seconds, on a machine with much else to do


def start(cluster, *words, wait=60, silence=60):
    environment = {
        "TF_CONFIG": cluster.tf_config(),
        "MTF_START_TIMEOUT": str(wait),
        "MTF_SILENCE_TIMEOUT": str(silence),
    }
    return subprocess.Popen(
        [sys.executable, str(MEMBER), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )


def start_all(count, *words, **timeouts):
    addresses = free_addresses(count)
    return [start(Cluster(addresses, i), *words, **timeouts) for i in range(count)]


def ends(processes):
    """Exit status and output of each."""
    found = [(process.communicate(timeout=ENOUGH)[0], process.returncode) for process in processes]
    return [(status, text) for text, status in found]


def outcome(count, *words, **timeouts):
    return ends(start_all(count, *words, **timeouts))


def test_each_gets_what_all_give():
    assert outcome(3, "gather") == [(0, "[0, 10, 20] [[0], [1], [2]]\n")] * 3


def test_all_say_what_differs():
    addresses = free_addresses(3)
    texts = ["d_model = 8\nseed = 1", "d_model = 16\nseed = 1", "d_model = 8\nseed = 1"]
    found = ends([start(Cluster(addresses, i), "agree", t) for i, t in enumerate(texts)])
    assert [status for status, _ in found] == [2, 2, 2]
    for _, text in found:
        assert f"config: d_model = 8 in process 0 ({addresses[0]})" in text
        assert f"config: d_model = 16 in process 1 ({addresses[1]})" in text
        assert "process 2" not in text and "seed" not in text


@pytest.mark.parametrize("count", [2, 3])
def test_a_killed_process_is_named_by_all_others(count):
    found = outcome(count, "die")
    assert found[1][0] == -signal.SIGKILL
    for status, text in [found[0], *found[2:]]:
        assert status == 1 and re.match(r"Process 1 \(127.0.0.1:\d+\) has died", text), text


def test_a_frozen_process_is_named_and_the_others_end():
    """Even if they wait in something that nothing else would end."""
    processes = start_all(3, "freeze", silence=2)
    found = ends([processes[0], processes[2]])
    processes[1].kill()
    processes[1].communicate()
    for status, text in found:
        assert status == 1
        assert re.search(r"Process 1 \(\S+\) has given no sign of life for 2 seconds", text), text


def test_the_error_of_one_is_told_by_all():
    found = outcome(3, "fail")
    assert found[1] == (2, "The disk of this machine is full.\n")
    for status, text in (found[0], found[2]):
        assert status == 1
        assert re.fullmatch(r"Process 1 \(\S+\) ended: The disk of this machine is full.\n", text)


def test_what_fails_in_one_fails_in_all():
    found = outcome(2, "fail_together")
    assert found[1] == (2, "no room\n")
    assert found[0][0] == 1 and re.fullmatch(r"Process 1 \(\S+\) failed: no room\n", found[0][1])


def test_programs_of_different_length_are_noticed():
    found = outcome(2, "leave_early")
    assert [status for status, _ in found] == [1, 1]
    for _, text in found:
        assert re.search(
            r"process 0 \(\S+\) is at 'saving', process 1 \(\S+\) is at 'the end'", text
        )


@pytest.mark.parametrize("asks", "012")
@pytest.mark.parametrize("ahead", "01")
def test_all_stop_after_the_same_step(asks, ahead):
    found = outcome(3, "stop", asks, ahead)
    assert [status for status, _ in found] == [0, 0, 0], found
    assert len({text for _, text in found}) == 1
    word, step, number = found[0][1].split()
    assert (word, int(number)) == ("stopped", signal.SIGTERM) and int(step) >= 3


def test_one_that_never_comes_is_named():
    addresses = free_addresses(3)
    found = ends([start(Cluster(addresses, i), "gather", wait=2) for i in (0, 2)])
    for status, text in found:
        assert status == 1
        assert f"process 1 ({addresses[1]}) did not come within 2 seconds" in text
        assert "process 2" not in text


def test_a_leader_that_never_comes_is_named():
    addresses = free_addresses(2)
    ((status, text),) = ends([start(Cluster(addresses, 1), "gather", wait=2)])
    assert status == 1
    assert text.startswith(f"Process 0 ({addresses[0]}) cannot be reached within 2 seconds")


def test_two_of_one_index_and_other_addresses_are_refused():
    addresses = free_addresses(3)
    found = ends([start(Cluster(addresses, i), "gather") for i in (0, 1, 1)])
    assert any("Two processes take themselves for process 1" in text for _, text in found)
    assert all(status == 1 for status, _ in found)
    others = (addresses[0], "127.0.0.1:9")
    found = ends([start(Cluster(addresses[:2], 0), "gather"), start(Cluster(others, 1), "gather")])
    for status, text in found:
        assert status == 1 and f"number 1 of {', '.join(others)}" in text


def test_strangers_are_sent_away():
    """Whatever knocks at an open port."""
    addresses = free_addresses(2)
    leader = start(Cluster(addresses, 0), "gather")
    host, port = addresses[0].split(":")
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            stranger = socket.create_connection((host, int(port)))
            break
    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert (
        ends([leader, start(Cluster(addresses, 1), "gather")]) == [(0, "[0, 10] [[0], [1]]\n")] * 2
    )
    stranger.close()


def test_a_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ((status, text),) = ends([start(Cluster((address, *free_addresses(1)), 0), "gather")])
    assert status == 1 and f"cannot listen at {address}: Address already in use" in text
