"""Tasks by name, and the metrics that say how good a model is."""

import pytest
import sacrebleu
import seqio

from mtf_models.data import metrics
from mtf_models.data.sources import training_batches
from mtf_models.data.tasks import get_task_or_mixture, tasks_with_split
from mtf_models.errors import DataError

# T5's vocabulary has these pieces for it: the check that comes with the model.
SENTENCE = [13959, 1566, 12, 2968, 10, 37, 629, 19, 1627, 5]


def test_an_unknown_task_is_refused_with_the_nearest_names():
    with pytest.raises(DataError) as error:
        get_task_or_mixture("kjv_wbe")
    assert "no task or mixture 'kjv_wbe'" in str(error.value)
    assert "kjv_web, kjv_web_lm" in str(error.value)
    assert "--module_import" in str(error.value)


def test_a_split_that_is_not_there():
    with pytest.raises(DataError, match="cmudict_g2p: train, validation, test"):
        tasks_with_split("cmudict_g2p", "dev")


def test_vocabularies_of_the_tasks():
    sizes = {
        name: {
            feature: spec.vocabulary.vocab_size
            for feature, spec in get_task_or_mixture(name).output_features.items()
        }
        for name in ("cmudict_g2p", "kjv_web", "kjv_web_lm")
    }
    assert sizes == {
        "cmudict_g2p": {"inputs": 256 + 3, "targets": 39 + 3},
        "kjv_web": {"inputs": 32100, "targets": 32100},
        "kjv_web_lm": {"targets": 32100},
    }
    vocabulary = get_task_or_mixture("kjv_web").output_features["inputs"].vocabulary
    assert vocabulary.encode("translate English to German: The house is wonderful.") == SENTENCE


def test_letters_in_phonemes_out(data_dir):
    task = get_task_or_mixture("cmudict_g2p")
    for example in task.get_dataset(None, "validation", shuffle=False).as_numpy_iterator():
        letters = bytes((example["inputs"][:-1] - 3).tolist())
        assert letters == example["inputs_pretokenized"]
        assert example["inputs"][-1] == example["targets"][-1] == 1
        symbols = example["targets_pretokenized"].decode().split()
        assert len(example["targets"]) == len(symbols) + 1


def test_language_model_batches_have_targets_only(data_dir):
    with training_batches("kjv_web_lm", {"targets": 128}, 2, seed=0) as stream:
        batch = next(stream)
    assert set(batch) == {"targets", "targets_segmentation", "targets_position"}
    assert batch["targets"].shape == (2, 128)


def test_any_listed_pronunciation_is_a_match():
    targets = [["T AH M EY T OW", "T AH M AA T OW"], ["K AE T"], ["D AO G"]]
    predictions = ["T AH M AA T OW", "K AE T S", ""]
    assert metrics.exact_match(targets, predictions)["exact_match"] == pytest.approx(100 / 3)


def test_phoneme_error_rate_counts_edits_to_the_nearest_pronunciation():
    targets = [["T AH M EY T OW", "T AH M AA T OW"], ["K AE T"], ["D AO G"]]
    # One substitution in 6 symbols, one insertion on 3, three deletions of 3.
    predictions = ["T AH M AA T AH", "K AE T S", ""]
    rate = metrics.phoneme_error_rate(targets, predictions)["phoneme_error_rate"]
    assert rate == pytest.approx(100 * 5 / 12)


def test_metrics_of_cmudict_accept_every_listed_pronunciation(data_dir):
    task = get_task_or_mixture("cmudict_g2p")
    dataset = task.get_dataset(None, "validation", shuffle=False)
    examples = [
        example for example in dataset.as_numpy_iterator() if len(example["pronunciations"]) > 1
    ]
    last = [example["pronunciations"][-1].decode() for example in examples]
    assert len(examples) > 100
    assert metrics.reference(task, examples[0])[-1] == last[0]
    values = metrics.compute_metrics(task, examples, last)
    assert values == {"exact_match": 100.0, "phoneme_error_rate": 0.0}


def test_metrics_of_kjv_web_are_bleu(data_dir):
    task = get_task_or_mixture("kjv_web")
    examples = list(task.get_dataset(None, "test", shuffle=False).take(50).as_numpy_iterator())
    predictions = [example["inputs_pretokenized"].decode() for example in examples]
    references = [example["targets_pretokenized"].decode() for example in examples]
    expected = sacrebleu.corpus_bleu(predictions, [references], tokenize="intl").score
    values = metrics.compute_metrics(task, examples, predictions)
    assert values == {"bleu": pytest.approx(expected, abs=1e-6)}


def test_metrics_that_want_scores_are_refused(make_task):
    task = get_task_or_mixture(make_task("scored", [1])).replace(
        metric_fns=[lambda targets, scores: {}]
    )
    assert isinstance(task, seqio.Task)
    with pytest.raises(DataError, match="compare scores, not texts"):
        metrics.compute_metrics(task, [], [])
