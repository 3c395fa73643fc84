"""Tasks made on the spot of files and datasets, and what is said where data are missing."""

import dataclasses

import numpy as np
import pytest
import requests
import seqio
import tensorflow_datasets as tfds

from fake_datasets import prepare
from mtf_models.data import tasks
from mtf_models.data.sources import training_batches
from mtf_models.data.tasks import get_task_or_mixture, tasks_with_split
from mtf_models.data.text_task import TextTask, add_text_task
from mtf_models.data.vocabularies.named import vocabulary_named
from mtf_models.errors import DataError
from mtf_models.runtime.bindings.tasks import get_vocabulary

BYTES = dict.fromkeys(("inputs", "targets"), vocabulary_named("bytes"))


@pytest.fixture
def no_network(monkeypatch):
    """A machine without a network, whatever this one has."""

    def head(url, **options):
        raise requests.ConnectionError(url)

    monkeypatch.setattr(requests, "head", head)


@pytest.fixture
def add(tmp_path):
    """Registers tasks, and forgets them afterwards."""
    names = []

    def make(name, **options):
        names.append(add_text_task(TextTask(name, BYTES, **options)))
        return get_task_or_mixture(name)

    yield make
    for name in names:
        seqio.TaskRegistry.remove(name)


def test_batches_of_a_file(add, tmp_path):
    (tmp_path / "pairs.tsv").write_text("ab\tc\n\u00e9\tdd\n")
    add("some_pairs", files={"train": (str(tmp_path / "pairs.tsv"),)})
    with training_batches("some_pairs", {"inputs": 8, "targets": 8}, 1, seed=0) as stream:
        batch = next(stream)
    first, second = [100, 101, 1], [0xC3 + 3, 0xA9 + 3, 1]
    assert batch["inputs"][0].tolist() in ([*first, *second, 0, 0], [*second, *first, 0, 0])


def test_the_same_task_again_is_left_and_another_of_the_name_replaced(add, tmp_path):
    files = {"train": (str(tmp_path / "a.tsv"),)}
    first = add("twice", files=files)
    assert add("twice", files=files) is first
    assert add("twice", files=files, on_bad="skip") is not first


def test_a_path_is_a_task_with_t5s_vocabulary(tmp_path):
    (tmp_path / "lines-of.text.txt").write_text("one\n\ntwo\n")
    task = get_task_or_mixture(str(tmp_path / "lines-of.text.txt"))
    assert task.name == "lines_of"
    assert list(task.output_features) == ["targets"]
    assert task.output_features["targets"].vocabulary.vocab_size == 32100
    assert task.num_input_examples("train") == task.num_input_examples("validation") == 2
    with pytest.raises(DataError, match="no split 'test' in .*lines_of: train, validation"):
        tasks_with_split(str(tmp_path / "lines-of.text.txt"), "test")


def test_token_ids_of_a_file_that_are_beyond_the_vocabulary(add, tmp_path):
    (tmp_path / "ids.jsonl").write_text('{"inputs": [5, 300], "targets": "a"}\n')
    task = add("some_ids", files={"train": (str(tmp_path / "ids.jsonl"),)})
    with pytest.raises(DataError, match="ids.jsonl:1: ids of inputs beyond the vocabulary of 259"):
        task.get_dataset(None, "train")


def test_labels_of_a_dataset_become_their_names(data_dir, add):
    prepare("glue/cola:1.0.0", data_dir)
    columns = {"inputs": "sentence", "targets": "label"}
    task = add("acceptable", dataset="glue/cola:1.0.0", columns=columns)
    examples = list(task.get_dataset(None, "train", shuffle=False).as_numpy_iterator())
    raw = tfds.load("glue/cola:1.0.0", data_dir=data_dir, split="train").as_numpy_iterator()
    found = [(e["inputs_pretokenized"], e["targets_pretokenized"]) for e in examples]
    names = [b"unacceptable", b"acceptable"]
    assert found == [(e["sentence"], names[e["label"]]) for e in raw]


def test_fields_of_a_dataset_that_are_not_known(data_dir, add):
    prepare("glue/cola:1.0.0", data_dir)
    with pytest.raises(DataError, match="which fields of glue/cola.*are inputs and targets.*label"):
        add("unknown", dataset="glue/cola:1.0.0")


def test_what_is_not_here_is_named_with_its_place(data_dir, no_network):
    with pytest.raises(DataError) as caught:
        tasks_with_split("glue_v002_proportional", "train")
    message = str(caught.value)
    for config in ("mrpc", "stsb"):
        assert f"glue/{config}:1.0.0, which belongs in {data_dir}/glue/{config}/1.0.0" in message
    assert "https://dl.fbaipublicfiles.com/glue/data/CoLA.zip" in message
    assert "gs://tfds-data/datasets" in message and "tfds build glue/" in message


def test_a_version_that_can_no_more_be_made(data_dir, no_network):
    task = "c4_realnewslike_v020_unsupervised"
    with pytest.raises(DataError, match=f"which belongs in {data_dir}/c4/en.realnewslike/2.2.0"):
        tasks_with_split(task, "train")


def test_a_vocabulary_that_cannot_be_fetched(make_task, no_network):
    task = get_task_or_mixture(make_task("remote", [1]))
    vocabulary = seqio.SentencePieceVocabulary("gs://somewhere/else.model")
    feature = dataclasses.replace(task.output_features["targets"], vocabulary=vocabulary)
    features = {**task.output_features, "targets": feature}
    seqio.TaskRegistry.add_provider("far", task.replace(output_features=features))
    try:
        with pytest.raises(DataError, match="vocabulary gs://somewhere/else.*does not answer"):
            tasks_with_split("far", "train")
    finally:
        seqio.TaskRegistry.remove("far")


def test_sentinels_that_another_file_of_t5_has_in_it(data_dir, no_network):
    prepare("c4/en:2.2.0", data_dir)
    (task,) = tasks_with_split("c4_v220_full_lm", "train")
    vocabulary = task.output_features["targets"].vocabulary
    # Of that file too: 32,100 pieces, the last of them <extra_id_0>.
    assert vocabulary.vocab_size == 32100
    assert vocabulary.encode("<extra_id_0>")[-1] == 32099


def test_names_that_are_taken_are_refused(add, tmp_path):
    with pytest.raises(DataError, match="There is a task 'kjv_web' already"):
        add("kjv_web", files={"train": ("a.tsv",)})
    tasks.register()
    with pytest.raises(DataError, match="An imported module has a task 'cmudict_g2p'"):
        tasks.register.__wrapped__()


def test_a_task_without_targets(make_task):
    task = get_task_or_mixture(make_task("aimless", [1]))
    features = {"inputs": task.output_features["inputs"]}
    seqio.TaskRegistry.add_provider("no_targets", task.replace(output_features=features))
    try:
        with pytest.raises(DataError, match="no_targets has no targets.*it has inputs"):
            get_vocabulary("no_targets")
    finally:
        seqio.TaskRegistry.remove("no_targets")


def test_an_empty_split_is_refused(make_task):
    make_task("hollow", [])
    with pytest.raises(DataError, match="'train' of hollow has no example"):
        training_batches("hollow", {"inputs": 4, "targets": 4}, 1, seed=0).peek()


@pytest.mark.parametrize("columns", [None, {"targets": "sentence"}])
def test_one_text_of_a_dataset(data_dir, columns):
    prepare("glue/cola:1.0.0", data_dir)
    spec = TextTask(
        "sentences", {"targets": BYTES["targets"]}, dataset="glue/cola:1.0.0", columns=columns
    )
    if columns is None:
        with pytest.raises(DataError, match="say so with --columns=targets=FIELD"):
            add_text_task(spec)
        return
    task = get_task_or_mixture(add_text_task(spec))
    (example,) = task.get_dataset(None, "train", shuffle=False).take(1).as_numpy_iterator()
    assert bytes((example["targets"][:-1] - 3).astype(np.uint8)) == example["targets_pretokenized"]
    seqio.TaskRegistry.remove("sentences")
