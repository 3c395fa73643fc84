"""Evaluation and prediction: every example once, in order, whatever the batch size."""

import numpy as np
import pytest
import seqio

from mtf_models.data.evaluation import decode_texts, evaluation_batches
from mtf_models.data.tasks import get_task_or_mixture
from mtf_models.errors import DataError

LENGTHS = {"inputs": 4, "targets": 4}


def test_seven_examples_in_batches_of_four(make_task):
    task = make_task("seven", [1, 2, 3, 4, 5, 6, 7])
    batches = list(evaluation_batches(task, LENGTHS, 4, split="train"))
    assert [batch.rows for batch in batches] == [4, 3]
    inputs = np.concatenate([batch.features["inputs"] for batch in batches])
    assert inputs.dtype == np.int32
    np.testing.assert_array_equal(
        inputs,
        [
            [10, 0, 0, 0],
            [11, 11, 0, 0],
            [12, 12, 12, 0],
            [13, 13, 13, 13],
            [14, 14, 14, 14],
            [15, 15, 15, 15],
            [16, 16, 16, 16],
            [0, 0, 0, 0],
        ],
    )
    assert set(batches[0].features) == {"inputs", "targets"}
    assert [batch.trimmed["inputs"] for batch in batches] == [0, 3]
    assert [len(example["inputs"]) for example in batches[1].examples] == [5, 6, 7]


def test_a_part_of_the_examples(make_task):
    task = make_task("seven", [1] * 7)
    batches = list(evaluation_batches(task, LENGTHS, 4, split="train", num_examples=5))
    assert [batch.rows for batch in batches] == [4, 1]


def test_held_out_words_come_with_all_their_pronunciations(data_dir):
    lengths = {"inputs": 32, "targets": 32}
    batches = list(evaluation_batches("cmudict_g2p", lengths, 512))
    assert sum(batch.rows for batch in batches) == 3697
    assert batches[-1].features["targets"].shape == (512, 32)
    assert sum(sum(batch.trimmed.values()) for batch in batches) == 0
    assert all(len(example["pronunciations"]) for batch in batches for example in batch.examples)


def test_a_mixture_is_evaluated_task_by_task(make_task):
    names = [make_task("first", [1]), make_task("second", [1])]
    seqio.MixtureRegistry.add("both", names, default_rate=1.0)
    try:
        with pytest.raises(DataError, match="evaluate its tasks first, second"):
            evaluation_batches("both", LENGTHS, 4, split="train")
    finally:
        seqio.MixtureRegistry.remove("both")


def test_ids_become_texts_up_to_the_end_of_sequence():
    task = get_task_or_mixture("cmudict_g2p")
    ids = np.array([[22, 4, 33, 1, 0, 0], [22, 4, 33, 1, 33, 33], [22, 4, 0, 0, 0, 0], [1] * 6])
    assert decode_texts(task, ids) == ["K AE T", "K AE T", "K AE", ""]
