import logging

import numpy as np
import pytest

from mtf_models.data import delimited
from mtf_models.errors import DataError

SENTENCES = {"inputs": [[5, 6, 1], [7, 1], [8, 9, 10, 1]], "targets": [[20, 1], [21, 22, 1], [23]]}


def packed(sentences, length, segments):
    """One row with its segments and positions, written down by hand."""
    rows = {suffix: [] for suffix in ("", "_segmentation", "_position")}
    for segment, ids in zip(segments, sentences, strict=True):
        rows[""] += ids
        rows["_segmentation"] += [segment] * len(ids)
        rows["_position"] += range(len(ids))
    return {s: np.array([r + [0] * (length - len(r))], np.int32) for s, r in rows.items()}


def features(segments=(1, 2, 3), **sentences):
    return {
        name + suffix: array
        for name, found in {**SENTENCES, **sentences}.items()
        for suffix, array in packed(found, 10, segments).items()
    }


def test_packed_examples_are_joined_one_by_one():
    joined = delimited.join(features())
    expected = packed(
        [i + t for i, t in zip(SENTENCES["inputs"], SENTENCES["targets"], strict=True)],
        20,
        [1, 2, 3],
    )
    assert joined.keys() == {"targets", "targets_segmentation", "targets_position"}
    for suffix, array in expected.items():
        np.testing.assert_array_equal(joined[f"targets{suffix}"], array)


def test_rows_of_one_example_are_joined_without_a_gap():
    joined = delimited.join(
        {
            "inputs": np.array([[5, 6, 1, 0], [7, 1, 0, 0], [0, 0, 0, 0]]),
            "targets": np.array([[20, 1, 0], [21, 22, 1], [0, 0, 0]]),
        }
    )
    rows = [[5, 6, 1, 20, 1, 0, 0], [7, 1, 21, 22, 1, 0, 0], [0] * 7]
    np.testing.assert_array_equal(joined["targets"], rows)
    np.testing.assert_array_equal(joined["targets_segmentation"], np.not_equal(rows, 0))
    np.testing.assert_array_equal(joined["targets_position"][0], [0, 1, 2, 3, 4, 0, 0])


def test_what_was_cut_gets_its_end_and_one_line_says_so(caplog):
    delimited._say_ended.cache_clear()
    cut = features(inputs=[[5, 6, 4], [7, 1], [8, 1]], targets=[[20, 1], [21, 3], [23]])
    with caplog.at_level(logging.WARNING):
        joined = delimited.join(cut)
        delimited.join(cut)
    # The last targets of a row may end as they like: nothing depends on it.
    right = [5, 6, 1, 20, 1, 7, 1, 21, 1, 8, 1, 23]
    np.testing.assert_array_equal(joined["targets"][0, :12], right)
    assert len(caplog.messages) == 1
    assert "in the place of their last token" in caplog.messages[0]


def test_inputs_alone_get_their_end_too():
    np.testing.assert_array_equal(
        delimited.ended(np.array([[5, 6, 1, 0], [7, 8, 0, 0], [0, 0, 0, 0]])),
        [[5, 6, 1, 0], [7, 1, 0, 0], [0, 0, 0, 0]],
    )


def test_inputs_and_targets_that_are_not_aligned_are_refused():
    ids = np.ones([2, 4], np.int32)
    delimited.check_aligned({"inputs": ids, "targets": ids})
    with pytest.raises(DataError, match=r"inputs are \[2, 4\] and targets \[2, 3\]"):
        delimited.check_aligned({"inputs": ids, "targets": ids[:, :3]})
    segments = {"inputs_segmentation": ids, "targets_segmentation": 2 * ids}
    with pytest.raises(DataError, match="inputs_segmentation and targets_segmentation differ"):
        delimited.check_aligned({"inputs": ids, "targets": ids, **segments})
