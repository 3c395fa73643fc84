"""Blocks that are read at once: what SeqIO reads one by one, wherever one begins."""

import functools

import numpy as np
import pytest
import seqio
import tensorflow as tf
import tensorflow_datasets as tfds
from etils import epath

from mtf_models.config import parse
from mtf_models.data.prepared import PreparedSource
from mtf_models.data.tasks import get_task_or_mixture
from mtf_models.data.whole_blocks import tokenised_examples, whole_blocks
from mtf_models.datasets.vocabs import t5_model

LENGTHS = {"inputs": 9, "targets": 7}
ODD = ("", " ", "a\tb  c", "naïve – “日本語” 🎻", b"\xff\xfe not UTF-8 \xc3", "a\0b", "x" * 40)
KEYS = {"inputs": "left", "targets": "right"}


class OddTexts(tfds.core.GeneratorBasedBuilder):
    """Texts that tokenisers may trip over, among ordinary ones."""

    VERSION = tfds.core.Version("1.0.0")
    code_path = epath.Path(__file__)

    def _info(self):
        text = tfds.features.Text()
        several = tfds.features.Sequence(text)
        features = {"left": text, "right": text, "number": np.int64, "several": several}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        sizes = {"train": 1300, "validation": 2, "test": 3}
        return {split: self._generate_examples(size) for split, size in sizes.items()}

    def _generate_examples(self, size):
        for n in range(size):
            left, right = (ODD[k] if k < len(ODD) else f"{n} is {k}" for k in (n % 11, n % 13))
            yield n, {"left": left, "right": right, "number": n, "several": ["s"] * (n % 3)}


@pytest.fixture
def odd_texts():
    """Makes a task over `OddTexts`, which is registered nowhere."""
    pieces = seqio.Feature(seqio.SentencePieceVocabulary(t5_model(), extra_ids=100))
    letters = seqio.Feature(seqio.ByteVocabulary(), add_eos=False)

    def make(keys=KEYS, more=(), **options):
        return seqio.Task(
            "odd_texts",
            source=PreparedSource(OddTexts),
            preprocessors=[
                functools.partial(seqio.preprocessors.rekey, key_map=keys),
                seqio.preprocessors.tokenize,
                seqio.CacheDatasetPlaceholder(),
                *more,
                seqio.preprocessors.append_eos,
            ],
            **{"output_features": {"inputs": pieces, "targets": letters}, **options},
        )

    return make


def slow(*values):
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def _one_by_one(task, split, seed):
    dataset = task.get_dataset(
        None, split, shuffle=True, seed=seed, num_epochs=1, trim_output_features=False
    )
    return list(dataset.as_numpy_iterator())


def _check(task, split, seed, start):
    lengths = {name: LENGTHS[name] for name in task.output_features}
    expected = _one_by_one(task, split, seed)[start:]
    blocks = list(whole_blocks(task, split, lengths, seed, start, 256).as_numpy_iterator())
    assert sum(len(block["targets"]) for block in blocks) == len(expected)
    for number, example in enumerate(expected):
        for name, length in lengths.items():
            found = blocks[number // 256][name][number % 256]
            ids = example[name][:length]
            np.testing.assert_array_equal(found[: len(ids)], ids)
            assert not found[len(ids) :].any()


@pytest.mark.parametrize(("seed", "start"), [(1, 0), (2, 255), (3, 1299), (4, 1300)])
def test_odd_texts_are_read_as_seqio_reads_them(odd_texts, seed, start):
    _check(odd_texts(), "train", seed, start)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_small_splits_are_read_as_seqio_reads_them(odd_texts, split):
    _check(odd_texts(), split, seed=1, start=0)


@pytest.mark.parametrize(
    "task", ["cmudict_g2p", *slow("kjv_web", "kjv_web_lm", "kjv_web_bytes_lm")]
)
def test_tasks_of_this_package_are_read_as_seqio_reads_them(task):
    _check(get_task_or_mixture(task), "test", seed=7, start=100)


@pytest.mark.parametrize(
    "objective", ["span_3_15_u_u", *slow("iid_15_r10s90_f", "all_permute", "lm")]
)
def test_an_objective_draws_from_blocks_as_from_single_examples(objective):
    task = get_task_or_mixture("kjv_web_unsupervised")
    lengths = {"inputs": 64, "targets": 32}
    config = parse([f"objectives/{objective}.gin"])
    with config.active():
        dataset = task.get_dataset(
            lengths, "test", shuffle=False, seed=5, num_epochs=1, trim_output_features=False
        )
        expected = list(dataset.as_numpy_iterator())
        blocks = tokenised_examples(task, "test", 256)
        found = list(task.preprocess_postcache(blocks, lengths, 5).as_numpy_iterator())
    assert len(found) == len(expected) > 20
    for example, alike in zip(found, expected, strict=True):
        for name in set(alike) & set(lengths):
            np.testing.assert_array_equal(example[name], alike[name])


@seqio.map_over_dataset
def _doubled(example):
    return {**example, "targets": tf.tile(example["targets"], [2])}


class Other(seqio.ByteVocabulary):
    """A vocabulary of which nothing is known."""


def test_other_tasks_are_left_to_seqio(odd_texts):
    others = seqio.Feature(Other())
    numbers = seqio.Feature(seqio.PassThroughVocabulary(9), rank=0)
    for task in (
        odd_texts(more=[_doubled]),
        odd_texts(shuffle_buffer_size=None),
        odd_texts(output_features={"inputs": others}),
        odd_texts({**KEYS, "number": "number"}, output_features={"number": numbers}),
        odd_texts({"inputs": "several"}, output_features={"inputs": seqio.Feature(Other())}),
        odd_texts({**KEYS, "inputs": None}),
        get_task_or_mixture("kjv_web_unsupervised"),
    ):
        assert whole_blocks(task, "train", LENGTHS, 0, 0, 256) is None
    for task in (odd_texts(), odd_texts(more=[_doubled]), get_task_or_mixture("kjv_web_lm")):
        assert tokenised_examples(task, "train", 256) is None


def test_several_files_are_left_to_seqio(tmp_path, monkeypatch):
    builder = OddTexts(data_dir=tmp_path)
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=2))
    assert len(builder.info.splits["train"].filepaths) == 2
    monkeypatch.setattr(PreparedSource, "tfds_dataset", builder)
    assert PreparedSource(OddTexts).records("train") is None
