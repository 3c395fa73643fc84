"""Preparation: once, quiet, by one of many, and unharmed by an interruption."""

import concurrent.futures
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from etils import epath

from mtf_models.data import prepared
from mtf_models.errors import DataError


class Counting(tfds.core.GeneratorBasedBuilder):
    """Three numbers; counts how often it is generated."""

    VERSION = tfds.core.Version("1.0.0")
    code_path = epath.Path(__file__)
    generated = 0
    started = threading.Event()

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({"number": tfds.features.Scalar(np.int64)}),
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples() for split in ("train", "validation", "test")}

    def _generate_examples(self):
        Counting.generated += 1
        self.started.wait(1)
        yield from ((number, {"number": number}) for number in range(3))


@pytest.fixture
def counting():
    Counting.generated = 0
    Counting.started.clear()
    return Counting


def test_many_at_once_prepare_once(counting, tmp_path):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(prepared.prepare, counting, tmp_path) for _ in range(4)]
        Counting.started.set()
        for run in runs:
            run.result()
    assert counting.generated == 3  # Once for each split.
    assert counting(data_dir=tmp_path).info.splits["test"].num_examples == 3


def test_preparation_is_quiet_and_leaves_no_torn_dataset(counting, tmp_path, capfd):
    leftover = tmp_path / "counting" / "incomplete.ABC123_1.0.0"
    leftover.mkdir(parents=True)
    (leftover / "counting-train.tfrecord-00000-of-00001").write_bytes(b"torn")
    Counting.started.set()
    prepared.prepare(counting, tmp_path)
    assert not leftover.exists()
    assert sorted(path.name for path in (tmp_path / "counting").iterdir()) == ["1.0.0"]
    out, err = capfd.readouterr()
    assert out == ""
    assert "xamples" not in err and "WARNING:absl" not in err


def test_a_folder_that_cannot_be_made(counting, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"counting cannot be prepared.*--data_dir"):
        prepared.prepare(counting, tmp_path / "file")


def test_where_datasets_lie(data_dir, monkeypatch):
    assert prepared.data_dir() == data_dir
    try:
        prepared.use_data_dir(None)
        monkeypatch.setenv("TFDS_DATA_DIR", "/somewhere")
        assert prepared.data_dir() == Path("/somewhere")
        monkeypatch.delenv("TFDS_DATA_DIR")
        monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
        assert prepared.data_dir() == Path("/cache/mtf_models/datasets")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "/home/someone")
        assert prepared.data_dir() == Path("/home/someone/.cache/mtf_models/datasets")
    finally:
        prepared.use_data_dir(str(data_dir))
