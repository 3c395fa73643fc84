"""Objectives on plain text: every file, by what it makes of a text that is known."""

import collections
import itertools

import numpy as np
import pytest
import seqio
import tensorflow as tf

from mtf_models import gin_files
from mtf_models.config import parse
from mtf_models.data.objectives import add_text_task
from mtf_models.data.sources import training_batches
from mtf_models.data.tasks import register
from mtf_models.datasets.vocabs import t5_model
from mtf_models.errors import ConfigError, DataError
from mtf_models.runtime import registry

FILES = sorted(path.stem for path in (gin_files.folder() / "objectives").glob("*.gin"))
SPANS = [name for name in FILES if name.endswith("u_u") or name == "span"]
SENTINELS = range(32000, 32100)
WORDS = ("in", "the", "beginning", "God", "created", "heaven", "and", "earth", "light", "day")


@pytest.fixture(scope="module")
def tokens():
    """A task over one long text, `long_text`, and its ids."""
    registry.register()
    register()
    text = " ".join(np.random.default_rng(0).choice(WORDS, 3000))
    vocabulary = seqio.SentencePieceVocabulary(t5_model(), extra_ids=100)
    add_text_task("long_text", _source(text), "text", vocabulary)
    yield vocabulary.encode(text)
    seqio.TaskRegistry.remove("long_text")


def _source(text):
    def dataset(split, shuffle_files=False, seed=None):
        del split, shuffle_files, seed
        return tf.data.Dataset.from_tensors({"text": text})

    return seqio.FunctionDataSource(dataset, ["train"], num_input_examples={"train": 1})


def _examples(file, lengths, count=6):
    """Some examples of an objective, cut where their padding begins."""
    with parse([f"objectives/{file}.gin"], [f"utils.run.sequence_length = {lengths}"]).active():
        with training_batches("long_text", lengths, count, seed=3, pack=False) as stream:
            batch = next(stream)
    rows = ({n: np.trim_zeros(x[i], "b").tolist() for n, x in batch.items()} for i in range(count))
    return [{name: ids[:-1] if ids[-1] == 1 else ids for name, ids in row.items()} for row in rows]


def _is_part(part, whole):
    text = ",".join(map(str, whole))
    return f",{','.join(map(str, part))}," in f",{text},"


def _lengths(file):
    names = ["targets"] if file == "lm" else ["inputs", "targets"]
    return dict.fromkeys(names, 96)


def _filled(inputs, targets):
    """The text that the spans in the targets, in their order, complete the inputs to."""
    groups = itertools.groupby(targets, lambda token: token in SENTINELS)
    spans = (list(span) for is_sentinel, span in groups if not is_sentinel)
    parts = [next(spans) if token in SENTINELS else [token] for token in inputs]
    assert next(spans, None) is None
    return [token for part in parts for token in part]


@pytest.mark.parametrize(
    "file", [SPANS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in SPANS[1:])]
)
def test_spans_in_the_targets_fill_the_gaps_in_the_inputs(tokens, file):
    params = ["inputs_length = 96"] if file.startswith("span") else []
    config = parse([f"objectives/{file}.gin"], params)
    lengths = {"inputs": 96, "targets": 96}
    with config.active(), training_batches("long_text", lengths, 6, seed=3, pack=False) as stream:
        batch = next(stream)
    for inputs, targets in zip(batch["inputs"], batch["targets"], strict=True):
        inputs, targets = (x[: np.argmax(x == 1)].tolist() for x in (inputs, targets))
        used = [token for token in inputs if token in SENTINELS]
        assert used == sorted(used, reverse=True) and used[0] == 32099
        assert _is_part(_filled(inputs, targets), tokens)


def test_every_other_objective_is_known_to_a_test():
    assert set(FILES) - set(SPANS) == {
        *("denoise", "iid_15_m_f", "iid_15_r10s90_f", "iid_15_d_d"),
        *("prefix_lm", "all_permute", "lm"),
    }


@pytest.mark.parametrize("file", ["denoise", "iid_15_m_f", "iid_15_r10s90_f"])
def test_the_whole_text_is_the_target_where_tokens_are_masked(tokens, file):
    changed = total = 0
    for example in _examples(file, _lengths(file)):
        assert _is_part(example["targets"], tokens)
        pairs = list(zip(example["inputs"], example["targets"], strict=True))
        masked = [given for given, wanted in pairs if given != wanted]
        assert file == "iid_15_r10s90_f" or set(masked) == {32099}
        changed, total = changed + len(masked), total + len(pairs)
    assert 0.08 < changed / total < 0.22


def test_what_is_dropped_from_the_inputs_is_the_target(tokens):
    for example in _examples("iid_15_d_d", _lengths("iid_15_d_d")):
        both = collections.Counter(example["inputs"] + example["targets"])
        assert not both.keys() & set(SENTINELS)
        starts = range(len(tokens) - 94)
        assert any(both == collections.Counter(tokens[i : i + both.total()]) for i in starts)


def test_a_prefix_goes_on_in_the_targets(tokens):
    for example in _examples("prefix_lm", _lengths("prefix_lm")):
        assert _is_part(example["inputs"] + example["targets"], tokens)


def test_permuted_tokens_are_those_of_the_text(tokens):
    for example in _examples("all_permute", _lengths("all_permute")):
        assert _is_part(example["targets"], tokens)
        assert example["inputs"] != example["targets"]
        assert sorted(example["inputs"]) == sorted(example["targets"])


def test_a_language_model_reads_targets_alone(tokens):
    for example in _examples("lm", _lengths("lm")):
        assert set(example) == {"targets"}
        assert _is_part(example["targets"], tokens)


@pytest.mark.parametrize(
    ("file", "features", "message"),
    [
        (None, ("inputs", "targets"), "names none: give --gin_file=objectives/span_3_15_u_u.gin"),
        ("lm", ("inputs", "targets"), "gives targets alone"),
        ("span", ("targets",), "the model reads targets alone: give --gin_file=objectives/lm.gin"),
    ],
)
def test_an_objective_that_does_not_fit_is_refused(tokens, file, features, message):
    config = parse([f"objectives/{file}.gin"] if file else [])
    with config.active(), pytest.raises(ConfigError, match=message):
        training_batches("long_text", dict.fromkeys(features, 96), 1, seed=0)


@pytest.mark.parametrize("file", ["span_3_15_u_u", "iid_15_m_f", "iid_15_r10s90_f"])
def test_a_vocabulary_without_extra_ids_has_no_sentinels(tokens, file):
    vocabulary = seqio.SentencePieceVocabulary(t5_model(), extra_ids=0)
    add_text_task("bare", _source("text"), "text", vocabulary)
    try:
        with parse([f"objectives/{file}.gin"]).active(), pytest.raises(DataError) as error:
            training_batches("bare", {"inputs": 96, "targets": 96}, 1, seed=0)
    finally:
        seqio.TaskRegistry.remove("bare")
    for text in ("inputs and targets has no extra ids", "extra_ids=100", "prefix_lm.gin"):
        assert text in str(error.value)


def test_more_spans_than_sentinels_are_said(tokens, caplog):
    lengths = {"inputs": 512, "targets": 512}
    for file, count in (("span", 0), ("iid_50_u_u", 1)):
        caplog.clear()
        with parse([f"objectives/{file}.gin"]).active():
            training_batches("long_text", lengths, 1, seed=0).close()
        said = [r for r in caplog.records if "the vocabulary has 100 sentinels" in r.message]
        assert len(said) == count
