"""What is in a task: its examples after each stage, their lengths, and what is unknown."""

import numpy as np
import pytest
import seqio

from fake_datasets import prepare
from mtf_models.data import stages
from mtf_models.data.histogram import histogram_text, write_histograms
from mtf_models.data.lengths import lengths_of
from mtf_models.data.listing import listed
from mtf_models.data.t5_tasks import register_t5
from mtf_models.data.tasks import get_task_or_mixture, names
from mtf_models.data.vocabularies.named import vocabulary_named

LIMITS = {"inputs": 8, "targets": 8}


def first(dataset):
    return next(iter(dataset.take(1).as_numpy_iterator()))


def test_an_example_after_each_stage(data_dir):
    prepare("glue/cola:1.0.0", data_dir)
    task = get_task_or_mixture("glue_cola_v002")
    raw = first(stages.raw(task, "train"))
    assert set(raw) == {"idx", "label", "sentence"}
    before = first(stages.preprocessed(task, "train", LIMITS))
    assert before["inputs"] == b"cola sentence: " + raw["sentence"]
    assert before["targets"] == [b"unacceptable", b"acceptable"][raw["label"]]
    after = first(stages.tokenised(task, "train", LIMITS))
    expected = vocabulary_named("t5").encode(before["inputs"].decode())
    assert after["inputs"].tolist() == [*expected, 1]


def test_packed_rows_and_their_fill():
    examples = [{"inputs": np.full(n, 5), "targets": np.full(2, 6)} for n in (3, 5, 2)]
    rows, filled = stages.packed_rows(examples, LIMITS)
    assert rows["inputs_segmentation"].tolist() == [[1, 1, 1, 2, 2, 2, 2, 2], [1, 1, *[0] * 6]]
    assert filled == {"inputs": 10 / 16, "targets": 6 / 16}


def test_lengths_cuts_and_padding():
    sizes = [2, 4, 6, 12]
    examples = [{"targets": np.full(n, 3)} for n in sizes]
    examples[0] = {"targets": np.array([3, 40])}
    found = lengths_of("targets", examples, seqio.PassThroughVocabulary(40), 8)
    assert found.sizes.tolist() == sizes
    assert found.cut == 1 / 4 and found.lost == 4 / 24
    assert found.padding == pytest.approx(1 - (2 + 4 + 6 + 8) / (4 * 8))
    assert (found.quantile(0.5), found.quantile(0.95)) == (6, 12)
    assert found.beyond == 1


def test_unknown_ids_and_the_characters_they_stand_for():
    vocabulary = vocabulary_named("t5")
    text = "snow \u96ea and rain \u96e8\u96e8"
    ids = np.array(vocabulary.encode(text))
    example = {"inputs": ids, "inputs_pretokenized": text.encode()}
    found = lengths_of("inputs", [example], vocabulary, 32)
    assert found.unknown_ids == (ids == 2).sum() > 0
    assert found.unknown_characters == {"\u96e8": 2, "\u96ea": 1}
    assert lengths_of("inputs", [example], vocabulary_named("bytes"), 32).unknown_characters == {}


def test_a_histogram_counts_every_example(tmp_path):
    examples = [{"targets": np.full(n, 3)} for n in [1] * 30 + [7] * 3 + [50]]
    found = lengths_of("targets", examples, seqio.PassThroughVocabulary(9), 10)
    lines = histogram_text(found).splitlines()
    counts = [int(line.split()[1]) for line in lines]
    assert counts[:2] == [30, 3] and sum(counts) == 34
    assert lines[0].startswith("  1-5 30 ") and lines[-1].endswith("cut")
    # The bar of the most frequent lengths is the longest.
    assert lines[0].count("\u2588") == 40 and lines[1].count("\u2588") == 4
    pytest.importorskip("matplotlib")
    write_histograms({"inputs": found, "targets": found}, tmp_path / "h.png")
    assert (tmp_path / "h.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_tasks_of_t5_are_listed_with_their_datasets():
    register_t5()
    found = {one.name: one for one in listed(names(), "cnn")}
    assert found["cnn_dailymail_v002"].reads == "cnn_dailymail:3.4.0"
    assert found["cnn_dailymail_v002"].features == ("inputs", "targets")
    assert "kjv_web" not in found
    everything = {one.name: one.reads for one in listed(names())}
    assert everything["kjv_web"] == "kjv_web:1.0.0"
    assert everything["glue_v002_proportional"].startswith("mixture of glue_ax_v002, glue_cola")
    # Those of the paper, under their names.
    assert everything.keys() >= {
        "c4_v220_span_corruption",
        "glue_cola_v002",
        "squad_v010_allanswers",
        "super_glue_boolq_v102",
        "wmt_t2t_ende_v003",
    }
