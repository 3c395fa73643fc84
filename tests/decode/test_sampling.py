"""Greedy decoding on tables of known probabilities, without any model."""

import numpy as np
import pytest

import mtf_models.mesh as mtf
from mtf_models.decode.sampling import greedy_decode

START, EOS, A, B = range(4)
VOCAB = mtf.Dimension("vocab", 4)
NEXT = {
    (): [0, 0, 0.6, 0.4],
    (A,): [0, 0.3, 0.4, 0.3],
    (B,): [0, 1, 0, 0],
}
"""After nothing, a or b; whatever comes third is the end."""


def table_step(previous, position, caches):
    """Log-probabilities of the table, by the last id and, through a cache, the time."""
    mesh = previous.mesh
    rows = [NEXT[()], [0, 1, 0, 0], NEXT[(A,)], NEXT[(B,)]]
    with np.errstate(divide="ignore"):
        table = np.log(np.array(rows, np.float32))
    last = mtf.Dimension("last", 4)
    table = mtf.import_tf_tensor(mesh, np.maximum(table, -100), mtf.Shape([last, VOCAB]))
    made = caches.get("made")
    if made is None:
        made = mtf.zeros(mesh, previous.shape, "int32")
    found = mtf.gather(table, previous, last)
    end = mtf.import_tf_tensor(mesh, np.array([-100, 0, -100, -100], np.float32), [VOCAB])
    third = mtf.greater_equal(made, 2)
    found = mtf.where(third, end, found, output_shape=found.shape)
    return found, {"made": made + 1}


def decode(prompt, step=table_step, mesh=None, **kwargs):
    mesh = mesh or mtf.Mesh()
    shape = mtf.Shape(zip(("batch", "length"), np.shape(prompt), strict=True))
    prompt = mtf.import_tf_tensor(mesh, np.array(prompt, np.int32), shape)
    ids, scores = greedy_decode(step, prompt, VOCAB, **kwargs)
    return ids.numpy().tolist(), scores.numpy()


def test_a_table_with_a_known_answer():
    ids, scores = decode([[0] * 5])
    assert ids == [[A, A, EOS, 0, 0]]
    assert scores == pytest.approx([np.log(0.6 * 0.4)], abs=1e-6)  # -1.4271


def test_nothing_is_decoded_after_the_last_position():
    ids, scores = decode([[0, 0]])
    assert ids == [[A, A]]
    assert scores == pytest.approx([np.log(0.24)], abs=1e-6)


def test_rows_end_at_different_times_and_prompts_are_kept():
    ids, scores = decode([[0, 0, 0, 0], [B, 0, 0, 0], [A, A, A, 0]])
    assert ids == [[A, A, EOS, 0], [B, EOS, 0, 0], [A, A, A, EOS]]
    assert scores == pytest.approx([np.log(0.24), 0.0, 0.0], abs=1e-6)


def test_an_end_inside_a_prompt_does_not_end_the_row():
    ids, _ = decode([[EOS, A, 0, 0, 0]])
    assert ids == [[EOS, A, EOS, 0, 0]]


def test_a_full_prompt_is_returned():
    ids, scores = decode([[A, B]])
    assert ids == [[A, B]]
    assert scores.tolist() == [0.0]


def test_another_end_of_sequence():
    ids, _ = decode([[0, 0, 0]], eos_id=A)
    assert ids == [[A, 0, 0]]


def test_on_a_mesh():
    prompt = np.zeros([4, 5], np.int32)
    prompt[1, 0] = B
    mesh = mtf.Mesh("batch:2;model:2", layout="batch:batch,vocab:model")
    ids, scores = decode(prompt, mesh=mesh)
    alone, alone_scores = decode(prompt)
    assert ids == alone
    np.testing.assert_allclose(scores, alone_scores, atol=1e-6)


def test_the_loop_stops_when_every_row_has_ended():
    positions = []

    def step(previous, position, caches):
        positions.append(int(position.numpy()))
        return table_step(previous, position, caches)

    decode([[0] * 50, [B] + [0] * 49], step)
    assert positions == [0, 1, 2]
