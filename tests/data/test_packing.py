"""Packing against the original's recorded cases and SeqIO's own packing."""

import numpy as np
import pytest
import seqio
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from mtf_models.data.packing import Counts, fill_rows, group


def _example(*ids, targets=None):
    example = {"inputs": np.array(ids, np.int32)}
    if targets is not None:
        example["targets"] = np.array(targets, np.int32)
    return example


def _of_size(size, start=1):
    return _example(*range(start, start + size))


def _pack(examples, **lengths):
    return fill_rows(list(group(examples, lengths)), lengths)


def _sizes(rows):
    return [[len(example["inputs"]) for example in row] for row in rows]


def test_two_examples_share_a_row_and_the_third_begins_the_next():
    features, counts = _pack([_of_size(3), _of_size(5), _of_size(2)], inputs=8)
    np.testing.assert_array_equal(
        features["inputs_segmentation"], [[1, 1, 1, 2, 2, 2, 2, 2], [1, 1, 0, 0, 0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(
        features["inputs_position"], [[0, 1, 2, 0, 1, 2, 3, 4], [0, 1, 0, 0, 0, 0, 0, 0]]
    )
    assert counts == Counts(2, 3, {"inputs": 10}, {"inputs": 0})
    assert counts.fill({"inputs": 8}) == {"inputs": 10 / 16}


def test_every_feature_must_fit():
    examples = [
        _example(*range(1, size + 1), targets=range(1, other + 1))
        for size, other in [(3, 2), (5, 7), (2, 1)]
    ]
    rows = list(group(examples, {"inputs": 8, "targets": 8}))
    assert _sizes(rows) == [[3], [5, 2]]


@pytest.mark.parametrize(
    "sizes, rows, trimmed",
    [
        ([8], [[8]], 0),
        ([9], [[9]], 1),
        ([17], [[17]], 1),
        ([8 * 3 + 1, 1], [[25], [1]], 1),
        ([3, 5, 2], [[3, 5], [2]], 0),
        ([1, 9, 1], [[1], [9], [1]], 1),
        ([7, 1], [[7, 1]], 0),
        ([8, 1], [[8], [1]], 0),
    ],
)
def test_edges_of_a_row_of_eight(sizes, rows, trimmed):
    examples = [_of_size(size) for size in sizes]
    assert _sizes(group(examples, {"inputs": 8})) == rows
    features, counts = _pack(examples, inputs=8)
    assert counts.trimmed == {"inputs": trimmed}
    expected = np.concatenate([example["inputs"][:8] for example in examples])
    np.testing.assert_array_equal(features["inputs"][features["inputs"] != 0], expected)


def test_the_original_packing_of_two_examples():
    features, _ = _pack(
        [_example(7, 8, 5, 1, targets=[3, 9, 1]), _example(8, 4, 9, 3, 1, targets=[4, 1])],
        inputs=10,
        targets=7,
    )
    expected = {
        "inputs": [[7, 8, 5, 1, 8, 4, 9, 3, 1, 0]],
        "inputs_segmentation": [[1, 1, 1, 1, 2, 2, 2, 2, 2, 0]],
        "inputs_position": [[0, 1, 2, 3, 0, 1, 2, 3, 4, 0]],
        "targets": [[3, 9, 1, 4, 1, 0, 0]],
        "targets_segmentation": [[1, 1, 1, 2, 2, 0, 0]],
        "targets_position": [[0, 1, 2, 0, 1, 0, 0]],
    }
    assert features.keys() == expected.keys()
    for name, value in expected.items():
        assert features[name].dtype == np.int32
        np.testing.assert_array_equal(features[name], value, err_msg=name)


def test_the_original_packing_without_end_of_sequence():
    features, _ = _pack(
        [_example(7, 8, 5, targets=[3, 9]), _example(8, 4, 9, 3, targets=[4])], inputs=8, targets=5
    )
    np.testing.assert_array_equal(features["inputs"], [[7, 8, 5, 8, 4, 9, 3, 0]])
    np.testing.assert_array_equal(features["targets"], [[3, 9, 4, 0, 0]])


def test_equals_seqio_where_all_examples_are_in_one_window_of_its():
    lengths = {"inputs": 32, "targets": 24}  # SeqIO packs max(lengths) examples at a time.
    random = np.random.default_rng(0)
    examples = [
        {name: random.integers(1, 100, random.integers(1, size)) for name, size in lengths.items()}
        for _ in range(32)
    ]
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(examples),
        output_signature={name: tf.TensorSpec([None], tf.int32) for name in lengths},
    )
    theirs = list(seqio.trim_and_pack_dataset(dataset, lengths).as_numpy_iterator())
    ours, _ = _pack(examples, **lengths)
    suffixes = {"": "", "_segmentation": "_segment_ids", "_position": "_positions"}
    for name in lengths:
        for suffix, seqio_suffix in suffixes.items():
            expected = [row[name + seqio_suffix] for row in theirs]
            np.testing.assert_array_equal(ours[name + suffix], expected, err_msg=name + suffix)


def test_segments_of_inputs_and_targets_agree_when_one_is_empty():
    features, _ = _pack([_example(targets=[5, 6]), _example(7, targets=[8])], inputs=4, targets=4)
    np.testing.assert_array_equal(features["inputs_segmentation"], [[2, 0, 0, 0]])
    np.testing.assert_array_equal(features["targets_segmentation"], [[1, 1, 2, 0]])


SIZES = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=40)


@given(sizes=SIZES, inputs=st.integers(1, 20), targets=st.integers(1, 20))
def test_nothing_is_lost_doubled_or_moved(sizes, inputs, targets):
    """By the segments and positions alone, every example comes out as it went in, in its order."""
    examples = [
        _example(*range(100 * i + 1, 100 * i + 1 + size), targets=[100 * i + 50] * other)
        for i, (size, other) in enumerate(sizes)
    ]
    lengths = {"inputs": inputs, "targets": targets}
    features, counts = _pack(examples, **lengths)
    assert all(
        array.shape == (counts.rows, lengths[n.split("_")[0]]) for n, array in features.items()
    )
    found = {name: _unpacked(features, name) for name in lengths}
    expected = {
        name: [e[name][:length].tolist() for e in examples if len(e[name])]
        for name, length in lengths.items()
    }
    assert found == expected
    assert counts.examples == len(examples)
    for name, length in lengths.items():
        assert counts.tokens[name] == sum(map(len, expected[name]))
        assert counts.trimmed[name] == sum(len(e[name]) > length for e in examples)
        # What is in no example is zero in every feature, and what is in one is zero in none.
        real = features[f"{name}_segmentation"] > 0
        assert (features[name] > 0).tolist() == real.tolist()
        assert not features[f"{name}_position"][~real].any()
    # An example has the same number on both sides, so that attention between them finds it.
    for row in range(counts.rows):
        for number in range(1, features["targets_segmentation"][row].max(initial=0) + 1):
            given_ids = features["inputs"][row][features["inputs_segmentation"][row] == number]
            wanted_ids = features["targets"][row][features["targets_segmentation"][row] == number]
            assert set(wanted_ids // 100) <= set(given_ids // 100)


def _unpacked(features, name):
    parts = []
    rows = zip(
        *(features[f"{name}{end}"] for end in ("", "_segmentation", "_position")), strict=True
    )
    for ids, segments, positions in rows:
        for number in range(1, segments.max(initial=0) + 1):
            part = ids[segments == number][np.argsort(positions[segments == number])]
            assert sorted(positions[segments == number]) == list(range(len(part)))
            parts += [part.tolist()] if len(part) else []
    return parts


def test_without_segments_there_are_tokens_only():
    features, _ = fill_rows([[_of_size(3)], [_of_size(5)]], {"inputs": 4}, segments=False)
    assert features.keys() == {"inputs"}
    np.testing.assert_array_equal(features["inputs"], [[1, 2, 3, 0], [1, 2, 3, 4]])


def test_counts_add_up():
    first = Counts(1, 2, {"inputs": 3}, {"inputs": 0})
    assert Counts() + first + first == Counts(2, 4, {"inputs": 6}, {"inputs": 0})
