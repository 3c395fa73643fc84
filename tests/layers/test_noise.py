"""Random changes to activations have the distributions that they say."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.layers.noise import annealed_dropout, multiplicative_jitter

MESH = mtf.Mesh("all:8", "a:all")
SHAPE = mtf.Shape("a:64,b:64")


def jittered(epsilon, x=None):
    with mtf.random_stream(mtf.RandomStream((1, 2))):
        return multiplicative_jitter(mtf.ones(MESH, SHAPE) if x is None else x, epsilon).numpy()


def test_jitter_is_uniform_around_1():
    found = jittered(0.1)
    assert 0.9 <= found.min() < 0.901 and 1.099 < found.max() <= 1.1
    assert found.mean() == pytest.approx(1, abs=0.005)
    assert found.std() == pytest.approx(0.1 / 3**0.5, rel=0.03)
    assert (jittered(0.0) == 1).all()


@pytest.mark.parametrize(("step", "rate"), [(0, 0.4), (10, 0.4), (15, 0.2), (20, 0.0), (1000, 0.0)])
def test_dropout_is_annealed_and_stays_at_0(step, rate):
    now = mtf.constant(MESH, step, dtype="int32")
    with mtf.random_stream(mtf.RandomStream((1, 2))):
        found = annealed_dropout(mtf.ones(MESH, SHAPE), True, 10, 20, 0.4, now).numpy()
    assert (found == 0).mean() == pytest.approx(rate, abs=0.03)
    np.testing.assert_allclose(found[found != 0], 1 / (1 - rate), rtol=1e-6)


def test_without_training_nothing_is_dropped():
    x = mtf.ones(MESH, SHAPE)
    assert annealed_dropout(x, False, 10, 20, 0.4, mtf.constant(MESH, 0)) is x


def test_a_wrong_schedule_is_refused():
    with pytest.raises(ShapeError, match="20 to 10 are not in order; a rate of 1.5"):
        annealed_dropout(mtf.ones(MESH, SHAPE), True, 20, 10, 1.5, mtf.constant(MESH, 0))
