"""Mixtures: their rates, what is drawn at them, and what cannot be mixed."""

import collections
import json
import math

import numpy as np
import pytest
import seqio
import tensorflow as tf
from t5.data.utils import rate_num_examples

from mtf_models.data import mixtures
from mtf_models.data.sources import training_batches
from mtf_models.data.tasks import get_task_or_mixture
from mtf_models.errors import DataError

LENGTHS = {"inputs": 8, "targets": 8}
SIZES = {"small": 1000, "middle": 3000, "large": 10_000}


@pytest.fixture
def make_mixture():
    """Registers mixtures, and forgets them afterwards."""
    names = []

    def make(name, tasks, **options):
        seqio.MixtureRegistry.add(name, tasks, **options)
        names.append(name)
        return get_task_or_mixture(name)

    yield make
    for name in names:
        seqio.MixtureRegistry.remove(name)


@pytest.fixture
def uncounted():
    """Three tasks, of `SIZES`, whose sources do not say how many examples they have."""
    feature = seqio.Feature(seqio.PassThroughVocabulary(100), add_eos=False)

    def source(size):
        def dataset(split, shuffle_files=False, seed=None):
            del split, shuffle_files, seed
            ids = tf.data.Dataset.range(size).map(lambda _: tf.constant([7], tf.int32))
            return ids.map(lambda x: {"inputs": x, "targets": x})

        return seqio.FunctionDataSource(dataset, ["train"])

    for name, size in SIZES.items():
        seqio.TaskRegistry.add(
            name,
            source=source(size),
            preprocessors=[seqio.CacheDatasetPlaceholder()],
            output_features={"inputs": feature, "targets": feature},
            metric_fns=[],
        )
    yield list(SIZES)
    for name in SIZES:
        seqio.TaskRegistry.remove(name)


RATES = [pytest.param(seqio.mixing_rate_num_examples, marks=pytest.mark.slow), rate_num_examples]


@pytest.mark.parametrize(
    ("temperature", "expected"), [(1.0, (0.2, 0.4, 0.4)), (2.0, (0.2612, 0.3694, 0.3694))]
)
@pytest.mark.parametrize("rate", RATES)
def test_rates_by_sizes_that_nobody_says(
    uncounted, make_mixture, caplog, rate, temperature, expected
):
    def of_task(task):
        return rate(task, maximum=2000, temperature=temperature)

    mixture = make_mixture("by_size", uncounted, default_rate=of_task)
    mixtures._count.cache_clear()
    with caplog.at_level("INFO", "mtf_models"):
        shares = mixtures.mixing_shares(mixture, "train")
    assert shares == pytest.approx(dict(zip(SIZES, expected, strict=True)), abs=5e-5)
    for name, size in SIZES.items():
        assert f"Counted {size:,} examples in the split 'train' of {name}." in caplog.messages
    with training_batches("by_size", LENGTHS, 500, seed=0, pack=False) as stream:
        for _ in range(40):
            next(stream)
        assert sum(stream.counts.drawn.values()) == 20_000
        for name, share in zip(SIZES, expected, strict=True):
            assert stream.counts.drawn[name] / 20_000 == pytest.approx(share, abs=0.012)


def test_a_mixture_in_a_mixture_shares_its_rate(make_task, make_mixture):
    tasks = [make_task(name, [1]) for name in ("first", "second", "third")]
    make_mixture("inner", [(tasks[0], 3.0), (tasks[1], 1.0)])
    outer = make_mixture("outer", [("inner", 2.0), (tasks[2], 2.0), (tasks[1], 1.0)])
    # first 2 * 3/4, second 2 * 1/4 + 1, third 2; SeqIO's own figures are the same.
    expected = {"first": 0.3, "second": 0.3, "third": 0.4}
    assert mixtures.mixing_shares(outer, "train") == pytest.approx(expected)
    assert {t.name: outer.get_rate(t) / 5.0 for t in outer.tasks} == pytest.approx(expected)


@pytest.mark.parametrize("rates", [(0.0, 0.0), (-1.0, 2.0), (math.inf, 1.0), (math.nan, 1.0)])
def test_rates_that_are_none(make_task, make_mixture, rates):
    tasks = [make_task(name, [1]) for name in ("first", "second")]
    make_mixture("odd", list(zip(tasks, rates, strict=True)))
    with pytest.raises(DataError, match="must be numbers from 0, and one above"):
        training_batches("odd", LENGTHS, 4, seed=0)


def test_a_task_of_rate_zero_is_not_drawn(make_task, make_mixture):
    tasks = [make_task(name, [1]) for name in ("first", "second")]
    make_mixture("half", [(tasks[0], 1.0), (tasks[1], 0.0)])
    with training_batches("half", LENGTHS, 4, seed=0) as stream:
        next(stream)
        assert set(stream.counts.drawn) == {"first"}


def test_examples_of_several_tasks_share_rows_and_none_is_lost(make_task, make_mixture):
    tasks = [make_task("first", [1] * 40), make_task("second", [3] * 60)]
    make_mixture("both", tasks, default_rate=1.0)
    seen = collections.Counter()
    with training_batches("both", LENGTHS, 4, seed=1) as stream:
        mixed = 0
        while min(p["epoch"] for p in stream.position["tasks"].values()) < 1:
            batch = next(stream)
            for ids, segments in zip(batch["inputs"], batch["inputs_segmentation"], strict=True):
                sizes = np.bincount(segments)[1:]
                mixed += {1, 3} <= set(sizes.tolist())
                starts = np.cumsum(sizes) - sizes
                kinds = zip(ids[starts].tolist(), sizes.tolist(), strict=True)
                seen.update(kinds)
        places = {n: (p["epoch"], p["example"]) for n, p in stream.position["tasks"].items()}
    assert mixed > 3
    for name, size, count in (("first", 1, 40), ("second", 3, 60)):
        epoch, place = places[name]
        found = [seen[token, size] for token in range(10, 10 + count)]
        assert sorted(found) == [epoch] * (count - place) + [epoch + 1] * place


def test_a_task_comes_in_the_same_order_whatever_it_is_mixed_with(make_task, make_mixture):
    tasks = [make_task(n, [size] * 30) for n, size in (("one", 1), ("two", 2), ("three", 3))]
    make_mixture("two_of_them", tasks[:2], default_rate=1.0)
    make_mixture("all_of_them", tasks, default_rate=1.0)

    def order(name):
        with training_batches(name, LENGTHS, 60, seed=1, pack=False) as stream:
            inputs = next(stream)["inputs"]
        return [row[0] for row in inputs.tolist() if np.count_nonzero(row) == 1]

    first, second = order("two_of_them"), order("all_of_them")
    shorter = min(len(first), len(second))
    assert shorter > 10
    assert first[:shorter] == second[:shorter]


def test_a_mixture_goes_on_from_any_position(make_task, make_mixture):
    make_mixture("both", [make_task("a", [1] * 5), make_task("b", [2] * 7)], default_rate=1.0)
    with training_batches("both", LENGTHS, 4, seed=1) as stream:
        positions, whole = [], []
        for _ in range(12):
            positions.append(json.dumps(stream.position))
            whole.append(next(stream)["inputs"].tolist())
    for step in (0, 1, 5, 11):
        position = json.loads(positions[step])
        with training_batches("both", LENGTHS, 4, seed=1, position=position) as resumed:
            assert [next(resumed)["inputs"].tolist() for _ in whole[step:]] == whole[step:]


def in_turns(datasets, rates, seed):
    """As many of each task as its rate says, one task after the other."""
    del seed
    turns = [n for n, rate in enumerate(rates) for _ in range(int(rate))]
    return tf.data.Dataset.choose_from_datasets(
        datasets, tf.data.Dataset.from_tensor_slices(np.array(turns, np.int64)).repeat()
    )


def test_a_sample_fn_of_the_mixture_chooses(make_task, make_mixture, caplog):
    tasks = [make_task(name, [size] * 7) for size, name in ((1, "a"), (2, "b"), (3, "c"))]
    rates = zip(tasks, (2.0, 0.0, 1.0), strict=True)
    mixture = make_mixture("turns", list(rates), sample_fn=in_turns)
    with caplog.at_level("INFO", "mtf_models"):
        stream = training_batches("turns", LENGTHS, 3, seed=5, pack=False)
    assert "turns: its own sample_fn says which task each example is of." in caplog.messages
    with stream:
        batches = [next(stream)["inputs"] for _ in range(400)]
        position = stream.position
        assert stream.counts.drawn == {"a": 800, "c": 400}
    # SeqIO's own mixing, of the lengths of inputs.
    theirs = mixture.get_dataset(LENGTHS, "train", shuffle=False, seed=5).take(12)
    expected = [len(example["inputs"]) for example in theirs.as_numpy_iterator()]
    assert expected == [1, 1, 3] * 4
    for batch in batches:
        assert np.count_nonzero(batch, axis=1).tolist() == [1, 1, 3]

    with training_batches("turns", LENGTHS, 3, 5, position=position, pack=False) as resumed:
        following = next(resumed)["inputs"]
    with training_batches("turns", LENGTHS, 3, seed=5, pack=False) as whole:
        for _ in range(400):
            next(whole)
        np.testing.assert_array_equal(next(whole)["inputs"], following)


def test_a_sample_fn_of_a_part_does_not_choose(make_task, make_mixture, caplog):
    tasks = [make_task(name, [1] * 5) for name in ("a", "b", "c")]
    make_mixture("part", tasks[:2], default_rate=1.0, sample_fn=in_turns)
    make_mixture("whole", ["part", tasks[2]], default_rate=1.0)
    with training_batches("whole", LENGTHS, 4, seed=1) as stream:
        stream.peek()
    assert "whole: the sample_fn of part, which is a part of it, does not choose" in caplog.text


@pytest.mark.parametrize(
    ("sample_fn", "message"),
    [
        (lambda datasets, rates, seed: datasets[0].take(3), "odd comes to an end"),
        (
            lambda datasets, rates, seed: datasets[0].map(lambda example: example["inputs"]),
            "given numbers of tasks in the place of their examples: .*in the preprocessors",
        ),
        (
            lambda datasets, rates, seed: tf.data.Dataset.zip(tuple(datasets)),
            "it makes .*It may choose among datasets",
        ),
        (
            lambda datasets, rates, seed: datasets[0].map(lambda number: number + 2),
            "it makes 2 of 0 to 1.*It may choose among datasets",
        ),
        (
            lambda datasets, rates, seed: datasets[0].map(lambda number: 1 // number),
            "InvalidArgumentError: .*division by zero.*It may choose among datasets",
        ),
    ],
)
def test_a_sample_fn_that_does_more_than_choose(make_task, make_mixture, sample_fn, message):
    tasks = [make_task(name, [1] * 5) for name in ("a", "b")]
    make_mixture("odd", tasks, default_rate=1.0, sample_fn=sample_fn)
    with (
        training_batches("odd", LENGTHS, 4, seed=1) as stream,
        pytest.raises(DataError, match=message),
    ):
        stream.peek()


def test_a_rate_may_be_drawn_in_other_ways_of_tensorflow(make_task, make_mixture):
    tasks = [make_task(name, [1] * 5) for name in ("a", "b")]
    drawn = tf.data.Dataset.sample_from_datasets
    make_mixture("plain", tasks, default_rate=1.0)
    make_mixture("by_hand", tasks, default_rate=1.0, sample_fn=drawn)
    batches = []
    for name in ("plain", "by_hand"):
        with training_batches(name, LENGTHS, 16, seed=1) as stream:
            batches.append(next(stream)["inputs"].tolist())
    assert batches[0] == batches[1]


def test_other_tasks_cannot_go_on_from_a_position(make_task, make_mixture):
    tasks = [make_task(name, [1] * 5) for name in ("a", "b", "c")]
    make_mixture("before", tasks[:2], default_rate=1.0)
    make_mixture("after", tasks[1:], default_rate=1.0)
    with training_batches("before", LENGTHS, 4, seed=1) as stream:
        position = stream.position
    for name, now in (("after", "b, c"), ("a", "a")):
        with pytest.raises(DataError, match=f"while a, b was read, and now {now} is"):
            training_batches(name, LENGTHS, 4, seed=1, position=position)


def test_tasks_of_different_vocabularies_are_not_mixed(make_mixture):
    make_mixture("babel", ["cmudict_g2p", "kjv_web"], default_rate=1.0)
    with pytest.raises(DataError) as error:
        training_batches("babel", LENGTHS, 4, seed=0)
    for text in (
        "inputs (cmudict_g2p: ByteVocabulary of 259 ids",
        "targets (cmudict_g2p: SentencePieceVocabulary of 42 ids",
        "kjv_web: SentencePieceVocabulary of 32100 ids",
    ):
        assert text in str(error.value)


def test_splits_that_tasks_lack(make_task, make_mixture, caplog):
    make_mixture("uneven", ["kjv_web_lm"], default_rate=1.0)
    with pytest.raises(DataError, match="no split 'dev' in uneven"):
        training_batches("uneven", {"targets": 8}, 4, seed=0, split="dev")
    make_mixture("halved", [make_task("trained", [1]), _held_out()], default_rate=1.0)
    try:
        with training_batches("halved", LENGTHS, 4, seed=0) as stream:
            assert stream.shares == {"trained": 1.0}
        assert "halved: left out held_out, which have no split 'train'." in caplog.messages
    finally:
        seqio.TaskRegistry.remove("held_out")


def _held_out():
    def dataset(split, shuffle_files=False, seed=None):
        raise AssertionError("its split is not read")

    task = get_task_or_mixture("trained")
    seqio.TaskRegistry.add(
        "held_out",
        source=seqio.FunctionDataSource(dataset, ["test"]),
        preprocessors=[],
        output_features=task.output_features,
        metric_fns=[],
    )
    return "held_out"
