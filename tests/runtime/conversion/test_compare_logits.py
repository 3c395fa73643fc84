"""The comparison at the end of a conversion, with what transformers says put in its place."""

import json
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import CheckpointError
from mtf_models.runtime.conversion import compare_logits, transformers_logits
from mtf_models.runtime.conversion.compare_logits import (
    Comparison,
    compare,
    fixed_features,
    write_report,
)

VOCAB = 16


class Echo:
    """A model of which logits are one-hot targets; a padded vocabulary."""

    network = SimpleNamespace(
        vocab_sizes={"targets": VOCAB},
        feature_names=("inputs", "targets"),
        longest_features={"inputs": None, "targets": None},
    )

    def __call__(self, features):
        logits = np.eye(VOCAB + 4, dtype=np.float32)[features["targets"]]
        shape = mtf.Shape(zip(("batch", "length", "vocab"), logits.shape, strict=True))
        return SimpleNamespace(logits=mtf.import_tf_tensor(mtf.Mesh(), logits, shape))


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(compare_logits, "_missing", list)


@pytest.fixture
def answer(monkeypatch, installed):
    """Puts logits, or the end of a process, in place of transformers' answer."""

    def put(logits=None, status=0, stderr=""):
        def run(words, **_):
            assert words[2] == transformers_logits.__name__
            features = dict(np.load(words[4]))
            np.testing.assert_array_equal(features["targets"], fixed_features(VOCAB)["targets"])
            if logits is not None:
                np.save(words[5], logits(features["targets"]))
            return SimpleNamespace(returncode=status, stderr=stderr)

        monkeypatch.setattr(subprocess, "run", run)

    return put


def test_equal_logits(answer, tmp_path):
    # What is at padding does not count.
    answer(lambda targets: np.eye(VOCAB)[targets] + np.expand_dims(targets == 0, -1) * 9 + 1e-6)
    found = compare(Echo(), tmp_path, "made")
    assert found.compared
    assert found.largest_difference == pytest.approx(1e-6, rel=0.1)
    assert "largest difference 1.0" in str(found)


def test_different_logits_are_an_error(answer, tmp_path):
    answer(lambda targets: np.eye(VOCAB)[targets] + 1e-3)
    with pytest.raises(CheckpointError, match="does not compute what its source does"):
        compare(Echo(), tmp_path, "made")


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (-9, "", "ended by SIGKILL"),
        (transformers_logits.CANNOT_RUN, "x\nno libcudart", "cannot be imported (no libcudart)"),
    ],
)
def test_what_cannot_be_compared_is_said(answer, tmp_path, status, said, reason):
    answer(status=status, stderr=said)
    found = compare(Echo(), tmp_path, "made")
    assert not found.compared
    assert reason in str(found)


def test_a_folder_that_transformers_refuses(answer, tmp_path):
    answer(status=1, stderr="Traceback ...\nValueError: bad config")
    with pytest.raises(CheckpointError, match="cannot run made: ValueError: bad config"):
        compare(Echo(), tmp_path, "made")


def test_without_torch(monkeypatch, tmp_path):
    monkeypatch.setattr(compare_logits, "_missing", lambda: ["torch"])
    found = compare(Echo(), tmp_path, "made")
    assert str(found).startswith("not compared: not installed: torch")
    write_report(tmp_path, tmp_path / "source", found)
    report = json.loads((tmp_path / "conversion.json").read_text())
    assert report["comparison"]["reason"] == found.reason
    assert report["source"].endswith("source")


def test_fixed_tokens_reach_every_bucket():
    features = fixed_features(VOCAB)
    assert min(x.shape[1] for x in features.values()) > 128
    for x in features.values():
        assert x.shape[0] == 2 and x.max() < VOCAB
        assert (x[0] > 1).all() and (x[1] == 0).any()
    np.testing.assert_array_equal(features["inputs"], fixed_features(VOCAB)["inputs"])


def test_rounding_is_relative_to_the_logits():
    assert Comparison(True, None, 9e-4, 10.0).agrees
    assert not Comparison(True, None, 2e-4, 1.0).agrees
