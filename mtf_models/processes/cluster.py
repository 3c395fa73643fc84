"""Which processes there are, by their addresses, and which of them this one is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtf_models.errors import ConfigError

TF_CONFIG = "TF_CONFIG"
"""The environment variable by which managers of clusters tell a process of the others."""

_PROCESSES = ("chief", "worker")
"""The kinds of tasks of TF_CONFIG that train, in the order in which they are counted."""

_HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Cluster:
    """The processes of one program.

    Attributes:
        addresses: "host:port" of each; the first one leads.
        index: which of them this process is.

    Raises:
        ConfigError: listing every address that cannot be read or occurs twice, and an index that
            is not one of them.
    """

    addresses: tuple[str, ...]
    index: int

    def __post_init__(self) -> None:
        faults = [fault for address in self.addresses if (fault := _address_fault(address))]
        counts = Counter(self.addresses)
        faults += [f"{a} is the address of {n} processes" for a, n in counts.items() if n > 1]
        if not self.addresses:
            faults.append("there is no address")
        elif type(self.index) is not int or not 0 <= self.index < len(self.addresses):
            last = len(self.addresses) - 1
            faults.append(
                f"the index is {self.index!r}, and those of the processes are 0 to {last}"
            )
        if faults:
            raise ConfigError(
                f"The processes cannot be told apart: {'; '.join(faults)}. Give each its own "
                "host:port, in the same order everywhere, and its own index."
            )

    @property
    def count(self) -> int:
        """How many processes there are."""
        return len(self.addresses)

    def name(self, index: int) -> str:
        """What messages call a process."""
        return f"process {index} ({self.addresses[index]})"

    def tf_config(self) -> str:
        """The value of TF_CONFIG that says this."""
        task = {"type": "worker", "index": self.index}
        return json.dumps({"cluster": {"worker": list(self.addresses)}, "task": task})


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of an address that was checked."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def from_environment(environ: Mapping[str, str]) -> Cluster | None:
    """The cluster that TF_CONFIG describes; None without one, or of a single process.

    Raises:
        ConfigError: if it cannot be read, or has tasks that have no part here.
    """
    text = environ.get(TF_CONFIG, "").strip()
    if not text:
        return None
    cluster = _from_tf_config(text)
    return cluster if cluster and cluster.count > 1 else None


def _from_tf_config(text: str) -> Cluster | None:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _unreadable(text, f"it is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise _unreadable(text, "it is no JSON object")
    if not found.get("cluster"):
        return None  # What managers set for a single process.
    jobs, task = found["cluster"], found.get("task")
    faults = [*_job_faults(jobs), *_task_faults(task, jobs)]
    if faults:
        raise _unreadable(text, "; ".join(faults))
    before = len(jobs.get("chief", ())) if task["type"] == "worker" else 0
    addresses = [address for job in _PROCESSES for address in jobs.get(job, ())]
    if int(task["index"]) >= len(jobs[task["type"]]):
        raise _unreadable(
            text,
            f"it has {len(jobs[task['type']])} of type {task['type']}, and is number "
            f"{task['index']} of them, counted from 0",
        )
    return Cluster(tuple(addresses), before + int(task["index"]))


def _job_faults(jobs: Any) -> list[str]:
    if not isinstance(jobs, dict):
        return ['"cluster" is no object of lists of addresses']
    others = [name for name in jobs if name not in _PROCESSES and jobs[name]]
    faults = [f"it has tasks of type {name}, which have no part here" for name in others]
    return faults + [
        f'"{name}" is no list of addresses'
        for name in _PROCESSES
        if name in jobs and not _are_texts(jobs[name])
    ]


def _task_faults(task: Any, jobs: Any) -> list[str]:
    if not isinstance(task, dict):
        return ['"task" is missing, which says which process this is']
    faults = []
    if task.get("type") not in _PROCESSES or isinstance(jobs, dict) and task["type"] not in jobs:
        faults.append(f"the type of its task is {task.get('type')!r}, not chief or worker")
    if not str(task.get("index")).isdecimal():
        faults.append(f"the index of its task is {task.get('index')!r}, not a number from 0")
    return faults


def _are_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)


def _unreadable(text: str, fault: str) -> ConfigError:
    return ConfigError(
        f"TF_CONFIG is {text[:200]!r}, and {fault}. Write for example "
        '{"cluster": {"worker": ["host0:3000", "host1:3000"]}, "task": {"type": "worker", '
        '"index": 0}}, or unset it to run in one process.'
    )


def _address_fault(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= _HIGHEST_PORT:
        return f"{address!r} is no host:port"
    return None
