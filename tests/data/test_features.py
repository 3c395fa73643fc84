"""Batches that a model must never see, and the padding of the last one."""

import numpy as np
import pytest

from mtf_models.data.features import check_features, pad_batch
from mtf_models.errors import DataError

SIZES = {"inputs": 128, "targets": 42}


def _batch(**changes):
    features = {name: np.ones([2, 4], np.int32) for name in ("inputs", "targets")}
    return {**features, **changes}


def test_a_good_batch_passes():
    check_features(_batch(inputs_position=np.zeros([2, 4], np.int64)), SIZES)


def test_an_id_beyond_the_vocabulary_is_named_with_its_place():
    targets = np.ones([2, 4], np.int32)
    targets[1, 2] = 42
    targets[1, 3] = 99
    with pytest.raises(DataError, match=r"targets has the id 42 at \[1, 2\] and 1 more.*of 42"):
        check_features(_batch(targets=targets), SIZES)


def test_faults_of_all_features_are_in_one_message():
    with pytest.raises(DataError) as error:
        check_features(_batch(inputs=np.full([2, 4], 128), targets=np.full([2, 4], -1)), SIZES)
    assert "inputs has the id 128 at [0, 0]" in str(error.value)
    assert "targets has the id -1 at [0, 0]" in str(error.value)


def test_negative_ids_are_for_targets_of_language_models_only():
    negative = np.full([2, 4], -5)
    check_features(_batch(targets=negative), SIZES, negative_targets=True)
    with pytest.raises(DataError, match="inputs has the id -5"):
        check_features(_batch(inputs=negative), SIZES, negative_targets=True)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"targets": np.ones([3, 4], np.int32)}, "batch sizes differ"),
        ({"targets": np.ones([2, 4], np.float32)}, r"targets is float32 of shape \[2, 4\]"),
        ({"targets": np.ones([2], np.int32)}, r"targets is int32 of shape \[2\]"),
        ({"targets_position": np.ones([2, 5], np.int32)}, r"targets_position is \[2, 5\]"),
        ({"labels_segmentation": np.ones([2, 4], np.int32)}, "comes without labels"),
    ],
)
def test_arrays_that_do_not_fit_together(changes, message):
    with pytest.raises(DataError, match=message):
        check_features(_batch(**changes), SIZES)


def test_the_last_batch_is_filled_up_with_zeros():
    features, rows = pad_batch({"inputs": np.array([[1, 2], [3, 4]])}, 4)
    assert rows == 2
    np.testing.assert_array_equal(features["inputs"], [[1, 2], [3, 4], [0, 0], [0, 0]])


def test_more_rows_than_the_batch_are_refused():
    with pytest.raises(DataError, match="3 rows does not fit into one of 2"):
        pad_batch({"inputs": np.ones([3, 1])}, 2)
