"""Texts of 16, 64 and 256 ids: nothing is compiled again, and caches change no id of them.

What is compared with is the whole model on all ids before, which keeps no caches.
"""

import itertools

import numpy as np
import pytest

RNG = np.random.default_rng(0)
INPUTS = RNG.integers(2, 100, [32, 6], np.int32)
EOS, REAL = 1, 100
BY_DEFAULT = {(1, 1, 16), (1, 4, 64), (32, 1, 256)}
"""Batch, beam and length; each of them is in one."""

EACH = [
    pytest.param(*case, marks=() if case in BY_DEFAULT else pytest.mark.nightly)
    for case in itertools.product((1, 32), (1, 4), (16, 64, 256))
]


@pytest.fixture(scope="module")
def model(build, of_varied_ids):
    return of_varied_ids(build("t5_tiny", "num_layers = 1", seed=0))


@pytest.mark.parametrize(("batch", "beam_size", "length"), EACH)
def test_other_rows_of_a_shape_are_decoded_without_compiling(model, batch, beam_size, length):
    rows = INPUTS[:batch]
    before = model.compilations
    for inputs in (rows, rows[:, ::-1], np.where(np.arange(6) < 3, rows, 0)):
        found = model.decode({"inputs": inputs}, beam_size=beam_size, max_decode_length=length)
        assert found.ids.shape.size == batch * length
        assert model.compilations == before + 1


@pytest.mark.parametrize("batch", [1, pytest.param(32, marks=pytest.mark.nightly)])
def test_each_of_256_ids_is_the_likeliest_after_those_before(model, batch):
    rows = {"inputs": INPUTS[-batch:]}
    found = model.decode(rows, max_decode_length=256, never_end=True)
    ids = found.ids.numpy()
    assert np.mean([len(set(row)) for row in ids.tolist()]) > 10
    whole = {**rows, "targets": ids}
    logits = model(whole).logits.numpy()[..., :REAL]
    logits[..., EOS] = -np.inf
    chosen = np.take_along_axis(logits, ids[..., np.newaxis], -1)[..., 0]
    # Of two that are alike to the last digits either may be taken.
    np.testing.assert_allclose(chosen, logits.max(axis=-1), atol=1e-4)
    np.testing.assert_allclose(found.scores, model.score(whole), rtol=1e-5)


def test_a_beam_of_256_ids_has_the_score_of_the_whole(model):
    rows = {"inputs": INPUTS[:1]}
    found = model.decode(rows, beam_size=4, max_decode_length=256, never_end=True)
    assert (found.ids.numpy() > EOS).all()
    rescored = model.score({**rows, "targets": found.ids.numpy()})
    np.testing.assert_allclose(found.log_probabilities, rescored, rtol=1e-5)
