"""Jobs of one kind are taken together, in order, and none is lost."""

import threading

import numpy as np
import pytest

from mtf_models.serve.jobs import Job, JobQueue, QueueFull


def job(key, name=None):
    return Job(key, name, {"inputs": np.zeros(1, np.int32)})


def names(jobs):
    return [job.request for job in jobs]


def test_those_of_the_first_key_are_taken_together():
    queue = JobQueue(most=9, gather=0)
    for key, name in (("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)):
        queue.put(job(key, name))
    assert names(queue.take(2)) == [1, 3]
    assert names(queue.take(8)) == [2, 4]
    assert names(queue.take(8)) == [5]


def test_a_full_batch_does_not_wait():
    queue = JobQueue(most=9, gather=3600)
    for name in range(3):
        queue.put(job("a", name))
    assert names(queue.take(3)) == [0, 1, 2]


def test_the_first_waits_for_others():
    queue = JobQueue(most=9, gather=60)
    queue.put(job("a", 1))
    threading.Timer(0.05, queue.put, [job("a", 2)]).start()
    assert names(queue.take(2)) == [1, 2]


def test_too_many_are_refused():
    queue = JobQueue(most=1)
    queue.put(job("a"))
    with pytest.raises(QueueFull):
        queue.put(job("a"))


def test_a_closed_queue_hands_out_what_waits():
    queue = JobQueue(most=9, gather=3600)
    queue.put(job("a", 1))
    queue.close()
    with pytest.raises(QueueFull):
        queue.put(job("a"))
    assert names(queue.take(8)) == [1]
    assert queue.take(8) == []


def test_closing_wakes_who_waits():
    queue, taken = JobQueue(most=9), []
    thread = threading.Thread(target=lambda: taken.append(queue.take(8)))
    thread.start()
    queue.close()
    thread.join(timeout=60)
    assert taken == [[]]
