"""Several processes write one checkpoint: threads that talk to each other as processes do."""

import concurrent.futures
import threading

import numpy as np
import pytest
import tensorflow as tf

from mtf_models import processes
from mtf_models.checkpoint import bundle
from mtf_models.errors import CheckpointError, ProcessError
from mtf_models.processes import Cluster
from mtf_models.processes.launcher import free_addresses
from mtf_models.processes.meeting import meet

WHOLE = np.arange(24, dtype=np.float32).reshape(4, 6)
BOXES = [((0, 0), (4, 3)), ((0, 3), (4, 3))]


@pytest.fixture
def in_processes(monkeypatch):
    """Does work(index) in so many members of a group; gives what each returned or raised."""
    member = threading.local()
    monkeypatch.setattr(processes, "current", lambda: member.group)

    def run(count, work):
        addresses = free_addresses(count)

        def take_part(index):
            member.group = meet(Cluster(addresses, index))
            try:
                return work(index)
            except Exception as error:
                return error
            finally:
                member.group.leave()

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return list(pool.map(take_part, range(count)))

    return run


def part(box):
    begin, sizes = box
    return begin, WHOLE[tuple(slice(b, b + n) for b, n in zip(begin, sizes, strict=True))]


def entry(boxes):
    return bundle.Entry("w", WHOLE.shape, tf.float32, [part(box) for box in boxes])


def test_each_writes_its_slices(in_processes, tmp_path):
    def work(index):
        bundle.write(tmp_path / "model.ckpt-1", [entry([BOXES[index]])], {"checkpoint": "text"})

    assert in_processes(2, work) == [None, None]
    reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-1"))
    np.testing.assert_array_equal(reader.get_tensor("w"), WHOLE)
    ends = ("data-00000-of-00002", "data-00001-of-00002", "index")
    assert {f.name for f in tmp_path.iterdir()} == {
        "checkpoint",
        *(f"model.ckpt-1.{end}" for end in ends),
    }


def test_one_may_have_nothing_to_write(in_processes, tmp_path):
    def work(index):
        bundle.write(tmp_path / "model.ckpt-1", [entry([] if index else BOXES)])

    assert in_processes(2, work) == [None, None]
    reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-1"))
    np.testing.assert_array_equal(reader.get_tensor("w"), WHOLE)


@pytest.mark.parametrize("boxes", [[BOXES[:1], []], [BOXES, BOXES[1:]]], ids=["missing", "twice"])
def test_what_does_not_make_up_a_variable_is_no_checkpoint(in_processes, tmp_path, boxes):
    first, second = in_processes(
        2, lambda index: bundle.write(tmp_path / "model.ckpt-1", [entry(boxes[index])])
    )
    assert isinstance(first, CheckpointError)
    assert "variable w [4, 6] do not cover it exactly once: [4, 3] at [0, 0]" in str(first)
    assert isinstance(second, ProcessError) and str(first) in str(second)
    assert list(tmp_path.iterdir()) == []


def test_what_fails_in_one_leaves_nothing(in_processes, tmp_path):
    def slices(index):
        yield part(BOXES[index])
        if index == 1:
            raise OSError(28, "No space left on device")

    def work(index):
        part_of = bundle.Entry("w", WHOLE.shape, tf.float32, slices(index))
        bundle.write(tmp_path / "model.ckpt-1", [part_of])

    first, second = in_processes(2, work)
    assert isinstance(first, ProcessError) and "Process 1" in str(first)
    assert isinstance(second, CheckpointError) and "No space left" in str(second)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_shared_is_refused(in_processes, tmp_path):
    def work(index):
        bundle.write(tmp_path / str(index) / "model.ckpt-1", [entry([BOXES[index]])])

    first, second = in_processes(2, work)
    assert isinstance(first, ProcessError) and isinstance(second, CheckpointError)
    assert f"{tmp_path / '1'} is not the same folder for all processes" in str(second)
    assert list((tmp_path / "0").iterdir()) == []
