"""Examples of about one length share a batch; every example is in one."""

import numpy as np

from mtf_models.data.buckets import bucketed, trimmed


def test_shapes_are_few_and_examples_all_there():
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 80, 50)
    examples = [{"inputs": np.full(n, i + 1)} for i, n in enumerate(sizes)]
    batches = list(bucketed(examples, {"inputs": 64}, 4))
    widths = [batch.features["inputs"].shape for batch in batches]
    assert set(widths) == {(4, 8), (4, 16), (4, 32), (4, 64)}
    assert widths == sorted(widths)
    assert sorted(p for batch in batches for p in batch.places) == list(range(50))
    for batch in batches:
        ids = batch.features["inputs"]
        assert ids.dtype == np.int32
        for row, place in zip(ids, batch.places, strict=False):
            assert np.count_nonzero(row == place + 1) == min(sizes[place], 64)
        for row in ids[len(batch.places) :]:
            np.testing.assert_array_equal(row, ids[0])
    assert trimmed(examples, {"inputs": 64}) == {"inputs": np.sum(sizes > 64)}


def test_the_longer_side_decides():
    examples = [{"inputs": np.ones(3), "targets": np.ones(15)}, {"inputs": [1], "targets": [1]}]
    batches = list(bucketed(examples, {"inputs": 64, "targets": 32}, 1))
    shapes = [[batch.features[n].shape[1] for n in ("inputs", "targets")] for batch in batches]
    assert shapes == [[8, 8], [32, 16]]


def test_short_sequences_have_one_shape():
    (batch,) = bucketed([{"inputs": np.ones(5)}], {"inputs": 6}, 2)
    assert batch.features["inputs"].shape == (2, 6)
