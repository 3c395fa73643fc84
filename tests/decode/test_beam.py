"""Beam search on a table of known probabilities."""

import itertools

import numpy as np
import pytest
from toy import EOS, VOCAB, A, B, Table

import mtf_models.mesh as mtf
from mtf_models.decode.result import NO_SEQUENCE

BEST = [[B, EOS, 0, 0, 0], [A, A, EOS, 0, 0]]


def test_two_hypotheses_find_what_greedy_decoding_does_not(run):
    ids, scores, _ = run([[0] * 5], beam_size=2, alpha=0.0)
    assert ids.tolist() == BEST[:1]
    assert scores == pytest.approx([-0.9163], abs=1e-4)


def test_all_sequences_in_order(run):
    ids, scores, log_probabilities = run([[0] * 5], beam_size=4, num_return=4, alpha=0.0)
    assert ids[0, :2].tolist() == BEST
    assert sorted(ids[0, 2:].tolist()) == [[A, EOS, 0, 0, 0], [A, B, EOS, 0, 0]]
    assert np.exp(scores[0]) == pytest.approx([0.4, 0.24, 0.18, 0.18], abs=1e-6)
    np.testing.assert_array_equal(log_probabilities, scores)


def test_the_length_penalty_counts_the_end(run):
    ids, scores, log_probabilities = run([[0] * 5], beam_size=4, num_return=4, alpha=0.6)
    assert ids[0].tolist() == [*BEST, [A, B, EOS, 0, 0], [A, EOS, 0, 0, 0]]
    assert scores[0] == pytest.approx([-0.8353, -1.2009, -1.4429, -1.5633], abs=1e-4)
    assert np.exp(log_probabilities[0]).sum() == pytest.approx(1, abs=1e-6)


def test_more_hypotheses_than_ids(run):
    ids, scores, _ = run([[0] * 5], beam_size=9, num_return=9, stop_early=False)
    assert ids[0, :4].tolist() == [*BEST, [A, B, EOS, 0, 0], [A, EOS, 0, 0, 0]]
    assert not ids[0, 4:].any()
    np.testing.assert_array_equal(scores[0, 4:], np.full(5, NO_SEQUENCE, np.float32))


def test_rows_with_prompts_of_several_lengths(run):
    prompts = [[0] * 5, [B, 0, 0, 0, 0], [A, A, A, 0, 0], [A, 0, 0, 0, 0]]
    ids, scores, _ = run(prompts, beam_size=3, num_return=2, stop_early=False)
    assert ids[0].tolist() == BEST
    assert ids[1].tolist() == [[B, EOS, 0, 0, 0], [0] * 5]
    assert ids[2].tolist() == [[A, A, A, EOS, 0], [0] * 5]
    # Only what follows the prompt counts, for probability and penalty.
    assert ids[3].tolist() == [[A, A, EOS, 0, 0], [A, B, EOS, 0, 0]]
    penalty = (7 / 6) ** 0.6
    assert scores[3] == pytest.approx(np.log([0.4, 0.3]) / penalty, abs=1e-6)
    assert scores[1:3, 0] == pytest.approx([0, 0], abs=1e-6)


def test_what_has_not_ended_is_returned_without_penalty_where_nothing_has(run):
    ids, scores, _ = run([[0, 0], [0, 0]], beam_size=2, num_return=2, limits=[1, 2])
    assert ids[0].tolist() == [[A, 0], [B, 0]]
    assert scores[0] == pytest.approx(np.log([0.6, 0.4]), abs=1e-6)
    assert ids[1].tolist() == [[B, EOS], [A, EOS]]
    ids, scores, _ = run([[0, 0]], beam_size=2, num_return=2, never_end=True)
    assert ids[0].tolist() == [[A, A], [A, B]]
    assert scores[0] == pytest.approx(np.log([0.24, 0.18]), abs=1e-6)


@pytest.mark.parametrize("options", [{"num_return": 2, "stop_early": False}, {}], ids=str)
def test_a_row_depends_on_no_other(run, options):
    prompts = [[0] * 6, [B, 0, 0, 0, 0, 0], [A, B, 0, 0, 0, 0]]
    found = run(prompts, beam_size=2, **options)
    for row, prompt in enumerate(prompts):
        for together, alone in zip(found, run([prompt], beam_size=2, **options), strict=True):
            np.testing.assert_array_equal(together[row], alone[0])


@pytest.mark.parametrize("run", ["eager"], indirect=True)
def test_the_search_stops_when_nothing_better_can_come(run):
    step = Table()
    run([[0] * 50], step, beam_size=2, alpha=0.0)
    assert step.positions == [0, 0, 1, 2]  # one to see what caches there are


def test_a_prefilter_loses_what_it_does_not_look_at(run):
    # One id of each hypothesis: the second one is always that of a dead hypothesis.
    ids, _, _ = run([[0] * 5], beam_size=2, num_prefilter=1)
    assert ids.tolist() == [[A, A, EOS, 0, 0]]


class Random(Table):
    """A table of random probabilities for each position and last id."""

    def __init__(self, vocab, length):
        self.vocab = mtf.Dimension("vocab", vocab)
        logits = np.random.default_rng(5).normal(size=[length, vocab, vocab]) * 2
        self.table = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)

    def __call__(self, previous, position, caches):
        mesh = previous.mesh
        time = mtf.Dimension("time", len(self.table))
        last = mtf.Dimension("last", self.vocab.size)
        table = mtf.import_tf_tensor(mesh, self.table, [time, last, self.vocab])
        now = mtf.reshape(mtf.gather(table, position, time), [last, self.vocab])
        return mtf.gather(now, previous, last), caches

    def log_probability(self, ids):
        return sum(self.table[t, a, b] for t, (a, b) in enumerate(itertools.pairwise([0, *ids])))


def test_a_wide_beam_finds_the_best_of_all_sequences(run):
    step, length, alpha = Random(5, 4), 4, 0.8
    sequences = [
        (*head, EOS)
        for size in range(length)
        for head in itertools.product([0, 2, 3, 4], repeat=size)
    ]
    scores = {ids: step.log_probability(ids) / ((5 + len(ids)) / 6) ** alpha for ids in sequences}
    best = sorted(scores, key=scores.get, reverse=True)[:6]
    options = {"beam_size": 64, "num_return": 6, "alpha": alpha, "stop_early": False}
    ids, found, _ = run([[0] * length], step, vocab=step.vocab, **options)
    assert found[0] == pytest.approx([scores[b] for b in best], abs=1e-5)
    assert [tuple(row[: len(b)]) for row, b in zip(ids[0].tolist(), best, strict=True)] == best


def test_on_a_mesh(run):
    prompts = np.zeros([4, 5], np.int32)
    prompts[1, 0] = B
    prompts[2, :2] = A
    mesh = mtf.Mesh("batch:2;model:2", layout="batch:batch,vocab:model")
    ids, scores, _ = run(prompts, mesh=mesh, beam_size=3, num_return=3)
    alone, alone_scores, _ = run(prompts, beam_size=3, num_return=3)
    np.testing.assert_array_equal(ids, alone)
    np.testing.assert_allclose(scores, alone_scores, atol=1e-6)


class Lengthening(Table):
    """Ends at once with probability 0.55, else at the fifth id."""

    def __call__(self, previous, position, caches):
        table = np.zeros([5, 4])
        table[:, A] = 1
        table[0, [EOS, A]] = 0.55, 0.45
        table[4] = [0, 1, 0, 0]
        with np.errstate(divide="ignore"):
            logs = np.log(table).astype(np.float32)
        time = mtf.Dimension("time", 5)
        now = mtf.gather(mtf.import_tf_tensor(previous.mesh, logs, [time, VOCAB]), position, time)
        return mtf.broadcast(now, previous.shape + VOCAB), caches


def test_a_longer_sequence_that_its_penalty_makes_better_is_waited_for(run):
    # log 0.45 / (10 / 6)^0.6 is above log 0.55, and over the penalty of four ids it is below.
    ids, scores, _ = run([[0] * 5], Lengthening(), beam_size=2)
    assert ids.tolist() == [[A, A, A, A, EOS]]
    assert scores == pytest.approx([-0.5877], abs=1e-4)
    # Where only four ids fit it never ends, and the other is best.
    assert run([[0] * 4], Lengthening(), beam_size=2)[0].tolist() == [[EOS, 0, 0, 0]]


@pytest.mark.parametrize("stop_early", [True, False])
def test_a_search_that_does_not_stop_early_returns_as_many_as_there_are(run, stop_early):
    options = {"beam_size": 2, "num_return": 2, "alpha": 0.0, "stop_early": stop_early}
    ids, scores, _ = run([[0] * 5], Lengthening(), **options)
    assert ids[0, 0].tolist() == [EOS, 0, 0, 0, 0]
    assert ids[0, 1].tolist() == ([0] * 5 if stop_early else [A, A, A, A, EOS])
    second = NO_SEQUENCE if stop_early else np.log(0.45)
    assert scores[0] == pytest.approx([np.log(0.55), second], abs=1e-6)
