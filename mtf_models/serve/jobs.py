"""Requests on their way to the model: waiting, taken together, answered."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class QueueFull(Exception):
    """As many requests wait as may."""


@dataclass(eq=False)
class Job:
    """One request.

    Attributes:
        key: jobs of the same key may be taken together.
        request: what is asked.
        ids: feature name to token ids, ends of sequence included.
        tell: called with pieces of text as they come; None where nobody waits for them.
        answer: of the request.
    """

    key: Hashable
    request: Any
    ids: dict[str, np.ndarray]
    tell: Callable[[str], None] | None = None
    answer: Future[Any] = field(default_factory=Future)

    @property
    def given_up(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.answer.cancelled()


class JobQueue:
    """Jobs in the order in which they came.

    Args:
        most: so many may wait.
        gather: seconds that the first job waits for others of its key.
    """

    def __init__(self, most: int, gather: float = 0.005) -> None:
        self._most, self._gather = most, gather
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: Job) -> None:
        """Adds a job.

        Raises:
            QueueFull: if too many wait, or the queue is closed.
        """
        with self._changed:
            if self._closed or len(self._jobs) >= self._most:
                raise QueueFull
            self._jobs.append(job)
            self._changed.notify_all()

    def close(self) -> None:
        """Takes no job any more; those that wait are still handed out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self, most: int) -> list[Job]:
        """Waits for the next jobs of one key, at most so many; none when closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            end = time.monotonic() + self._gather
            while self._jobs and self._alike(most) < most:
                left = end - time.monotonic()
                if left <= 0 or self._closed or not self._changed.wait(left):
                    break
            if not self._jobs:
                return []
            key = self._jobs[0].key
            taken = [job for job in self._jobs if job.key == key][:most]
            for job in taken:
                self._jobs.remove(job)
            return taken

    def _alike(self, most: int) -> int:
        key = self._jobs[0].key
        return min(most, sum(job.key == key for job in self._jobs))
