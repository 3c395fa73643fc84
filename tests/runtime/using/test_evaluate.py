from types import SimpleNamespace

import numpy as np
import pytest
import seqio

from mtf_models.runtime.using.evaluate import results_table
from mtf_models.runtime.using.evaluation import Evaluation
from mtf_models.runtime.using.samples import Sample, samples_of, table


@pytest.fixture
def task():
    """Makes a task of which only the vocabulary and the postprocessing matter."""

    def make(postprocess_fn=lambda text, **_: text):
        feature = seqio.Feature(seqio.ByteVocabulary())
        return SimpleNamespace(
            name="a_task",
            output_features={"inputs": feature, "targets": feature},
            postprocess_fn=postprocess_fn,
        )

    return make


def examples(*texts):
    return [{"inputs_pretokenized": b"in", "targets_pretokenized": t.encode()} for t in texts]


def test_a_text_is_right_if_it_is_the_reference(task):
    made = samples_of(task(), examples("cat", "dog", "c"), ["cat", "do", "cat"], [])
    assert [sample.right for sample in made] == [True, False, False]
    assert [sample.references for sample in made] == [["cat"], ["dog"], ["c"]]


def test_a_text_is_right_if_it_is_one_of_the_references(task):
    def split(text, example, is_target):
        return text.split("|") if is_target else text

    made = samples_of(task(split), examples("cat|dog", "cat|dog"), ["dog", "cat|dog"], [])
    assert [sample.right for sample in made] == [True, False]
    assert made[0].text(4) == "  in    dog  =  cat | dog"


def test_predictions_are_read_as_the_task_reads_them(task):
    def number(text, example, is_target):
        return float(text)

    made = samples_of(task(number), examples("1.0", "2"), ["1", "3"], [])
    assert [sample.right for sample in made] == [True, False]
    assert made[0].references == ["1.0"]


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 1), (7, 7), (10, 10), (200, 10)])
def test_so_many_samples_are_shown(task, count, shown):
    texts = [str(i) for i in range(count)]
    made = samples_of(task(), examples(*texts), texts, [])
    assert len(made) == count
    lines = table(made)
    assert len(set(lines)) == len(lines) == shown
    if count > 1:
        assert (lines[0].split()[1], lines[-1].split()[1]) == ("0", str(count - 1))


def test_nothing_is_shown_where_nothing_was_decoded(task):
    made = samples_of(task(), examples("a", "b"), [], [-1.0, -2.0])
    assert table(made) == []
    assert made[1].row() == {"input": "in", "references": ["b"], "log_probability": -2.0}


def test_a_row_has_what_there_is(task):
    def number(text, example, is_target):
        return float(text)

    made = samples_of(task(number), examples("1.0", "2"), ["1", "3.0"], [-0.5, -1.5])
    assert [sample.row() for sample in made] == [
        {
            "input": "in",
            "references": ["1.0"],
            "prediction": "1",
            "right": True,
            "value": "1.0",
            "log_probability": -0.5,
        },
        {
            "input": "in",
            "references": ["2.0"],
            "prediction": "3.0",
            "right": False,
            "log_probability": -1.5,
        },
    ]


def test_an_input_without_its_text(task):
    ids = np.array([*(byte + 3 for byte in b"abc"), 1], np.int32)
    given = [{"inputs": ids, "targets_pretokenized": b"x"}]
    (sample,) = samples_of(task(), given, ["x"], [])
    assert sample.input == "abc"


def test_text():
    found = Evaluation(
        task="a_task",
        examples=2,
        metrics={"exact": 50.0, "loss": 1.23456},
        samples=[
            Sample("a\tlonger\ninput " + "x" * 40, ["y"], "\0y", "\0y"),
            Sample("b", ["y"], "y", "y"),
        ],
    )
    assert found.rows() == {"a_task/exact": 50.0, "a_task/loss": 1.23456}
    assert found.text().splitlines() == [
        "a_task, 2 examples: exact 50  loss 1.235",
        f"  a\ufffdlonger\ufffdinput {'x' * 25}  \ufffdy  ≠  y",
        f"  {'b':<40}  y  =  y",
    ]


def test_text_without_samples():
    assert Evaluation("a_task", 2, {"loss": 2.0}, []).text() == "a_task, 2 examples: loss 2"


def test_a_table_has_a_row_for_each_step():
    found = {20: {"a/bleu": 12.3456, "b/loss": 0.5}, 5: {"a/bleu": 1.0}}
    assert results_table(found) == [
        "step  a/bleu  b/loss",
        "   5       1        ",
        "  20   12.35     0.5",
    ]
