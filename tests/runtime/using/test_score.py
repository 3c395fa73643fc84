"""Scores as records of a file."""

import numpy as np
import pytest
import tensorflow as tf

from mtf_models.errors import DataError
from mtf_models.runtime.original.score import Scored, save_scores_to_tfrecords
from mtf_models.runtime.original.used_model import Vocabularies


class Numbers:
    """Ids as text, but for 7."""

    def decode(self, ids):
        if 7 in ids:
            raise KeyError(7)
        return " ".join(map(str, ids))


VOCABULARIES = Vocabularies(Numbers(), Numbers())


def scored(*ids):
    return Scored(-1.5, np.array(ids), np.array([3]), {})


def test_records_stay_until_new_ones_are_whole(tmp_path):
    path, name = tmp_path / "found_0.tfrecord", str(tmp_path / "found")
    save_scores_to_tfrecords([scored(4, 1)], VOCABULARIES, name)
    with pytest.raises(KeyError):
        save_scores_to_tfrecords([scored(5), scored(7)], VOCABULARIES, name)
    (record,) = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    example = tf.train.Example.FromString(record).features.feature
    assert example["target"].bytes_list.value[0] == b"4 1"
    assert list(tmp_path.iterdir()) == [path]


def test_records_that_cannot_be_written(tmp_path):
    (tmp_path / "found_0.tfrecord").mkdir()
    with pytest.raises(DataError, match="found_0.tfrecord cannot be written: Is a directory"):
        save_scores_to_tfrecords([scored(4)], VOCABULARIES, str(tmp_path / "found"))
