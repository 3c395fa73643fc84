"""Greedy decoding and sampling on a table of known probabilities, without any model."""

import collections

import numpy as np
import pytest
from toy import EOS, VOCAB, A, B, Table

import mtf_models.mesh as mtf
from mtf_models.decode.sampling import draw


@pytest.mark.parametrize("options", [{}, {"beam_size": 1, "alpha": 0.6}], ids=str)
def test_a_table_with_a_known_answer(run, options):
    ids, scores, log_probabilities = run([[0] * 5], **options)
    assert ids.tolist() == [[A, A, EOS, 0, 0]]
    assert scores == pytest.approx([-1.4271], abs=1e-4)  # A beam of one has no penalty.
    np.testing.assert_array_equal(log_probabilities, scores)


def test_nothing_is_decoded_after_the_last_position(run):
    ids, scores, _ = run([[0, 0]])
    assert ids.tolist() == [[A, A]]
    assert scores == pytest.approx([np.log(0.24)], abs=1e-6)


def test_nothing_is_decoded_after_the_limit_of_a_row(run):
    ids, scores, _ = run([[0] * 4, [0] * 4, [A, 0, 0, 0]], limits=[1, 9, 2])
    assert ids.tolist() == [[A, 0, 0, 0], [A, A, EOS, 0], [A, A, 0, 0]]
    assert scores == pytest.approx(np.log([0.6, 0.24, 0.4]), abs=1e-6)


def test_rows_end_at_different_times_and_prompts_are_kept(run):
    ids, scores, _ = run([[0, 0, 0, 0], [B, 0, 0, 0], [A, A, A, 0]])
    assert ids.tolist() == [[A, A, EOS, 0], [B, EOS, 0, 0], [A, A, A, EOS]]
    assert scores == pytest.approx([np.log(0.24), 0.0, 0.0], abs=1e-6)


def test_an_end_inside_a_prompt_does_not_end_the_row(run):
    assert run([[EOS, A, 0, 0, 0]])[0].tolist() == [[EOS, A, EOS, 0, 0]]


def test_a_full_prompt_is_returned(run):
    ids, scores, _ = run([[A, B]])
    assert ids.tolist() == [[A, B]]
    assert scores.tolist() == [0.0]


def test_other_ends_of_sequence(run):
    assert run([[0, 0, 0]], stop_ids=(A,))[0].tolist() == [[A, 0, 0]]
    assert run([[0, 0, 0], [A, 0, 0]], stop_ids=(EOS, A))[0].tolist() == [[A, 0, 0], [A, A, 0]]


def test_a_sequence_that_never_ends(run):
    # Third comes the end alone, and what is never chosen comes last of all.
    ids, scores, _ = run([[0, 0], [B, 0]], never_end=True)
    assert ids[0].tolist() == [A, A]
    assert EOS not in ids
    assert scores[0] == pytest.approx(np.log(0.24), abs=1e-6)


def test_another_first_id(run):
    # As if b had been there already: after it comes the end.
    assert run([[0, 0, 0]], first_id=B)[0].tolist() == [[EOS, 0, 0]]


def test_no_id_comes_twice(run):
    assert run([[0] * 5], no_repeat_ngram=1)[0].tolist() == [[A, EOS, 0, 0, 0]]
    assert run([[0] * 5], no_repeat_ngram=2)[0].tolist() == [[A, A, EOS, 0, 0]]


def test_a_penalty_for_what_is_there_already(run):
    # log 0.4 times 1.2 is below log 0.3, of which the end comes first; the score is the model's.
    ids, scores, _ = run([[0] * 5], repetition_penalty=1.4)
    assert ids.tolist() == [[A, EOS, 0, 0, 0]]
    assert scores == pytest.approx([np.log(0.18)], abs=1e-6)
    assert run([[0] * 5], repetition_penalty=1.2)[0].tolist() == [[A, A, EOS, 0, 0]]


class Cycle(Table):
    """Prefers after 2 the 3, after 3 the 2; and 4 after either a little less."""

    def __call__(self, previous, position, caches):
        last = mtf.Dimension("last", 5)
        table = np.full([5, 5], 0.01)
        table[[0, 2, 3, 4], [2, 3, 2, 2]] = 0.6
        table[[2, 3], 4] = 0.3
        logs = np.log(table / table.sum(1, keepdims=True)).astype(np.float32)
        logs = mtf.import_tf_tensor(previous.mesh, logs, mtf.Shape([last, ("vocab", 5)]))
        return mtf.gather(logs, previous, last), caches


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, [2, 3, 2, 3, 2, 3, 2, 3]),
        # Where both are banned the others are equally likely, and the first is taken.
        (2, [2, 3, 2, 4, 2, 0, 2, 1]),
        (3, [2, 3, 2, 3, 4, 2, 3, 0]),
    ],
)
def test_no_run_of_ids_comes_twice(run, size, expected):
    vocab = mtf.Dimension("vocab", 5)
    ids, _, _ = run([[0] * 8], Cycle(), vocab=vocab, no_repeat_ngram=size)
    assert ids.tolist() == [expected]


def uniforms(rows, count, length=5, seed=0):
    return np.random.default_rng(seed).random([rows, count, length])


TRUE = {(B, EOS): 0.4, (A, A, EOS): 0.24, (A, EOS): 0.18, (A, B, EOS): 0.18}


def frequencies(ids):
    counts = collections.Counter(tuple(row[row != 0].tolist()) for row in ids)
    return {ids: count / sum(counts.values()) for ids, count in counts.items()}


def test_drawn_sequences_have_the_probabilities_of_the_table(run):
    ids, scores, _ = run([[0] * 5], temperature=1.0, num_return=4000, uniforms=uniforms(1, 4000))
    assert frequencies(ids[0]) == pytest.approx(TRUE, abs=0.03)
    expected = [np.log(TRUE[tuple(row[row != 0].tolist())]) for row in ids[0, :50]]
    np.testing.assert_allclose(scores[0, :50], expected, rtol=1e-5)


@pytest.mark.parametrize("options", [{"top_k": 2}, {"top_p": 0.7}], ids=str)
def test_a_cut_distribution_and_a_temperature(run, options):
    drawn = uniforms(1, 4000, seed=3)
    ids, _, _ = run([[0] * 5], temperature=0.5, num_return=4000, uniforms=drawn, **options)
    found = frequencies(ids[0])
    b_first = 0.16 / (0.16 + 0.36)
    # After a, the end and b are equally likely: neither is cut without the other.
    second = np.array([0.3, 0.4, 0.3]) ** 2
    second /= second.sum()
    assert found[B, EOS] == pytest.approx(b_first, abs=0.03)
    assert found[A, A, EOS] == pytest.approx((1 - b_first) * second[1], abs=0.03)
    assert found[A, EOS] == pytest.approx((1 - b_first) * second[0], abs=0.03)


def test_only_the_likeliest_is_drawn(run):
    for options in ({"top_k": 1}, {"top_p": 0.1}, {"temperature": 1e-3}):
        asked = {"temperature": 1.0, **options}
        ids, _, _ = run([[0] * 5], num_return=50, uniforms=uniforms(1, 50), **asked)
        assert frequencies(ids[0]) == {(A, A, EOS): 1.0}


def test_a_row_draws_the_same_in_any_batch(run):
    drawn = uniforms(4, 1)
    ids, scores, _ = run([[0] * 5] * 4, temperature=1.0, uniforms=drawn)
    alone = [run([[0] * 5], temperature=1.0, uniforms=drawn[i : i + 1]) for i in range(4)]
    np.testing.assert_array_equal(ids, np.concatenate([x[0] for x in alone]))
    np.testing.assert_array_equal(scores, np.concatenate([x[1] for x in alone]))


def test_on_a_mesh(run):
    prompts = np.zeros([4, 5], np.int32)
    prompts[1, 0] = B
    mesh = mtf.Mesh("batch:2;model:2", layout="batch:batch,vocab:model")
    drawing = {"temperature": 0.9, "num_return": 20, "uniforms": uniforms(4, 20), "top_p": 0.9}
    for options in ({}, drawing, {"no_repeat_ngram": 1, "repetition_penalty": 1.1}):
        ids, scores, _ = run(prompts, mesh=mesh, **options)
        alone, alone_scores, _ = run(prompts, **options)
        np.testing.assert_array_equal(ids, alone)
        np.testing.assert_allclose(scores, alone_scores, atol=1e-6)


@pytest.mark.parametrize("run", ["eager"], indirect=True)
def test_the_loop_stops_when_every_row_has_ended(run):
    step = Table()
    run([[0] * 50, [B] + [0] * 49], step)
    assert step.positions == [0, 0, 1, 2]  # one to see what caches there are


def test_an_id_of_no_probability_is_never_drawn():
    """Neither at the ends of the unit interval nor where rounding leaves a rest."""
    logits = np.full([4, 6], -np.inf, np.float32)
    logits[:, [1, 4]] = np.log([0.3, 0.7])
    uniform = np.array([0.0, 0.29, 0.31, np.nextafter(np.float32(1), np.float32(0))], np.float32)
    mesh, vocab = mtf.Mesh(), mtf.Dimension("vocab", 6)
    logits = mtf.import_tf_tensor(mesh, logits, mtf.Shape([("batch", 4), vocab]))
    drawn = draw(logits, vocab, mtf.import_tf_tensor(mesh, uniform, [("batch", 4)]))
    assert drawn.numpy().tolist() == [1, 1, 4, 4]


def test_the_table_is_what_the_tests_say():
    assert VOCAB.size == 4 and sum(TRUE.values()) == pytest.approx(1)
