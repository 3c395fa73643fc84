"""The order of training batches: complete, seeded, and exactly resumable."""

import collections
import itertools
import json

import numpy as np
import pytest

from mtf_models.data.sources import rows_of_process, training_batches
from mtf_models.errors import DataError

LENGTHS = {"inputs": 8, "targets": 8}
KINDS = pytest.mark.parametrize("stored", [True, False], ids=["stored", "streamed"])


def _ids(stream, batches):
    return [next(stream)["targets"][:, 0].tolist() for _ in range(batches)]


@KINDS
def test_an_epoch_has_every_example_once(make_task, stored):
    task = make_task("thirty_seven", [1] * 37, stored)
    with training_batches(task, LENGTHS, 4, seed=1, pack=False) as stream:
        ids = list(itertools.chain.from_iterable(_ids(stream, 20)))
    epochs = [ids[:37], ids[37:74]]
    for epoch in epochs:
        assert sorted(epoch) == list(range(10, 47))
    assert epochs[0] != epochs[1] != sorted(epochs[1])
    assert len(set(ids[74:])) == 6


@KINDS
def test_a_stream_goes_on_from_any_position(make_task, stored):
    task = make_task("thirty_seven", [1] * 37, stored)
    with training_batches(task, LENGTHS, 4, seed=1, pack=False) as stream:
        positions, whole = [json.dumps(stream.position)], []
        for _ in range(20):
            whole += _ids(stream, 1)
            positions.append(json.dumps(stream.position))
    for step in (0, 5, 9, 10, 18, 19):
        position = json.loads(positions[step])
        with training_batches(task, LENGTHS, 4, seed=1, position=position, pack=False) as resumed:
            assert _ids(resumed, 20 - step) == whole[step:]


@KINDS
def test_a_packed_stream_goes_on_from_any_position(make_task, stored):
    sizes = np.random.default_rng(0).integers(1, 6, 600).tolist()
    task = make_task("packed", sizes, stored)
    with training_batches(task, LENGTHS, 16, seed=1) as stream:
        positions, whole = [dict(stream.position)], []
        for _ in range(40):
            whole.append(next(stream))
            positions.append(dict(stream.position))
        assert stream.position["epoch"] == 2
    for step in (7, 17, 30):
        with training_batches(task, LENGTHS, 16, seed=1, position=positions[step]) as resumed:
            for expected in whole[step:]:
                features = next(resumed)
                assert features.keys() == expected.keys()
                for name in expected:
                    np.testing.assert_array_equal(features[name], expected[name])


def test_a_packed_epoch_has_every_token_once(make_task):
    sizes = [3, 5, 2, 8, 9, 1, 7]
    task = make_task("packed", sizes)
    with training_batches(task, LENGTHS, 1, seed=1) as stream:
        tokens = collections.Counter()
        while stream.position["epoch"] == 0 and stream.position["example"] < len(sizes):
            inputs = next(stream)["inputs"]
            tokens.update(inputs[inputs != 0].tolist())
        assert stream.counts.trimmed == {"inputs": 1, "targets": 0}
        assert stream.counts.examples == len(sizes)
        assert stream.examples_per_epoch == len(sizes)
    assert tokens == {10 + index: min(size, 8) for index, size in enumerate(sizes)}


def test_the_order_depends_on_the_seed(make_task):
    task = make_task("thirty_seven", [1] * 37)
    orders = []
    for seed in (1, 1, 2):
        with training_batches(task, LENGTHS, 37, seed=seed, pack=False) as stream:
            orders.append(_ids(stream, 2))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_peeking_takes_nothing(make_task):
    task = make_task("thirty_seven", [1] * 37)
    with training_batches(task, LENGTHS, 4, seed=1) as stream:
        assert stream.peek().examples == 32
        assert stream.position == {"epoch": 0, "example": 0, "seed": 1}
        assert stream.counts.examples == 0


@pytest.mark.parametrize("pack", [True, False])
def test_processes_read_all_rows_between_them_whatever_their_number(make_task, pack):
    sizes = np.random.default_rng(0).integers(1, 6, 100).tolist()
    task = make_task("shared", sizes)
    options = {"seed": 1, "pack": pack}
    with training_batches(task, LENGTHS, 12, **options) as stream:
        whole, positions = [], [stream.position]
        for _ in range(12):
            whole.append(next(stream))
            positions.append(stream.position)
        counts = stream.counts
    # Begun by one process, gone on with by two, then by three, then by four.
    for processes, steps in ((2, range(2, 5)), (3, range(5, 8)), (4, range(8, 12))):
        begin = {"position": positions[steps.start], **options}
        streams = [
            training_batches(task, LENGTHS, 12, process=(index, processes), **begin)
            for index in range(processes)
        ]
        for step in steps:
            parts = [next(stream) for stream in streams]
            for name, expected in whole[step].items():
                rows = np.concatenate([part[name] for part in parts])
                np.testing.assert_array_equal(rows, expected)
            assert {str(stream.position) for stream in streams} == {str(positions[step + 1])}
        for stream in streams:
            assert stream.counts.rows == 12 * len(steps)
            stream.close()
    assert counts.rows == 12 * 12


def test_rows_of_processes():
    assert [rows_of_process(12, index, 3) for index in range(3)] == [
        slice(0, 4),
        slice(4, 8),
        slice(8, 12),
    ]
    with pytest.raises(DataError, match="12 rows does not split over 5 processes"):
        rows_of_process(12, 0, 5)
    with pytest.raises(DataError, match="no process 3 among 3"):
        rows_of_process(12, 3, 3)


def test_long_examples_are_skipped_and_counted(make_task):
    task = make_task("some_long", [3, 9, 8, 30, 1])
    options = {"seed": 1, "pack": False, "long_examples": "skip"}
    with training_batches(task, LENGTHS, 3, **options) as stream:
        for _ in range(3):
            assert sorted(next(stream)["targets"][:, 0]) == [10, 12, 14]
            position = stream.position
        assert stream.counts.skipped["some_long"] in (4, 5, 6)  # Two an epoch, between examples.
        assert stream.counts.trimmed == {"inputs": 0, "targets": 0}
        expected = next(stream)["targets"]
    with training_batches(task, LENGTHS, 3, position=position, **options) as resumed:
        np.testing.assert_array_equal(next(resumed)["targets"], expected)


@pytest.mark.parametrize(
    ("long_examples", "message"),
    [
        ("refuse", r"of epoch 0 of all_long has more than 8 inputs. Raise run.sequence_length"),
        ("skip", "All 2 examples of all_long are longer than a row of"),
        ("split", "long_examples is 'split'; it can be 'cut', 'skip', 'refuse'"),
    ],
)
def test_long_examples_that_stop_a_run(make_task, long_examples, message):
    task = make_task("all_long", [9, 12])
    with pytest.raises(DataError, match=message):
        with training_batches(task, LENGTHS, 1, seed=1, long_examples=long_examples) as stream:
            next(stream)


def test_an_error_while_reading_reaches_the_caller(make_task):
    task = make_task("empty", [])
    with training_batches(task, LENGTHS, 4, seed=1) as stream:
        for _ in range(2):
            with pytest.raises(DataError, match="empty has no example: take another split"):
                next(stream)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"sequence_length": {"inputs": 8}}, "needed for inputs, targets"),
        ({"sequence_length": {**LENGTHS, "targets": 0}}, "at least 1"),
        ({"batch_size": 0}, "batch size is 0"),
        ({"seed": -1}, "seed -1"),
        ({"split": "dev"}, "no split 'dev'.*thirty_seven: train"),
        ({"position": {"epoch": 0}}, "no position"),
        ({"position": {"epoch": 0, "example": 0, "seed": 2}}, "--seed=2"),
    ],
)
def test_what_is_refused(make_task, changes, message):
    task = make_task("thirty_seven", [1] * 37)
    options = {"sequence_length": LENGTHS, "batch_size": 4, "seed": 1, **changes}
    with pytest.raises(DataError, match=message):
        training_batches(task, **options)
