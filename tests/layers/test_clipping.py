"""Values are bounded softly, gradients by their root mean square."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError
from mtf_models.layers.clipping import clip_activation_gradient, soft_cap

SLOPES = np.array([3.0, -4.0, 12.0, 0.0], np.float32)  # their root mean square is 6.5


def slopes(bound, layout=""):
    mesh = mtf.Mesh("model:4" if layout else "", layout=layout)
    x = mtf.import_tf_tensor(mesh, np.arange(4, dtype=np.float32), "d_model:4")
    weights = mtf.import_tf_tensor(mesh, SLOPES, "d_model:4")
    with tf.GradientTape() as tape:
        tape.watch(x.value)
        y = clip_activation_gradient(x, bound)
        loss = mtf.reduce_sum(y * weights)
        with tape.stop_recording():
            found = mtf.gradients(tape, loss, [x])[0]
    np.testing.assert_array_equal(y, np.arange(4))
    return found.numpy()


@pytest.mark.parametrize("layout", ["", "d_model:model"])
@pytest.mark.parametrize("bound, factor", [(1.3, 0.2), (6.5, 1.0), (100.0, 1.0), (None, 1.0)])
def test_the_bound(bound, factor, layout):
    np.testing.assert_allclose(slopes(bound, layout), SLOPES * factor, rtol=1e-6)


def test_a_soft_cap():
    array = np.array([-1e3, -3.0, -0.01, 0.0, 2.0, 1e3], np.float32)
    x = mtf.import_tf_tensor(mtf.Mesh(), array, "d_model:6")
    found = soft_cap(x, 2.0).numpy()
    right = [-2.0, -2 * np.tanh(1.5), -0.01, 0.0, 2 * np.tanh(1.0), 2.0]
    np.testing.assert_allclose(found, right, rtol=1e-5)
    assert soft_cap(x, None) is x


def test_a_bound_of_nothing():
    with pytest.raises(ConfigError, match="must be positive"):
        clip_activation_gradient(mtf.ones(mtf.Mesh(), "d_model:2"), 0.0)
