"""Initial values have the variance that is asked for."""

import numpy as np
import pytest
import tensorflow as tf

from mtf_models.errors import ConfigError
from mtf_models.layers.initialization import VarianceScalingInitializer, padded
from mtf_models.mesh import Dimension
from mtf_models.mesh.initializers import random_normal

IN, OUT = [Dimension("d_model", 64), Dimension("heads", 4)], [Dimension("d_ff", 1024)]
SIZES, SEED = [64, 4, 1024], tf.constant([1, 2])
TRUNCATED = 0.87962566
"""The standard deviation of a standard normal distribution cut off at 2."""


@pytest.mark.parametrize(("mode", "fan"), [("fan_in", 256), ("fan_out", 1024), ("fan_avg", 640)])
def test_normal(mode, fan):
    values = VarianceScalingInitializer(2.0, mode)(IN, OUT)(SIZES, SEED).numpy()
    stddev = (2.0 / fan) ** 0.5
    assert values.std() == pytest.approx(TRUNCATED * stddev, rel=0.01)
    assert np.abs(values).max() <= 2 * stddev


def test_uniform():
    values = VarianceScalingInitializer(distribution="uniform")(IN, OUT)(SIZES, SEED).numpy()
    assert values.std() == pytest.approx(256**-0.5, rel=0.01)
    assert np.abs(values).max() <= (3 / 256) ** 0.5


@pytest.mark.parametrize("arguments", [{"mode": "fan"}, {"distribution": "cauchy"}], ids=str)
def test_other_modes_and_distributions_are_refused(arguments):
    with pytest.raises(ConfigError, match='"fan_avg".*"uniform"'):
        VarianceScalingInitializer(**arguments)


@pytest.mark.parametrize("axis", [0, 1])
def test_padding_is_zero_and_changes_nothing_else(axis):
    whole = padded(random_normal(1.0), axis, 5)([8, 8], SEED).numpy()
    inner = random_normal(1.0)([5, 8] if axis == 0 else [8, 5], SEED).numpy()
    real, added = np.split(whole, [5], axis)
    np.testing.assert_array_equal(real, inner)
    assert not added.any()
