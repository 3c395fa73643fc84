"""check_layer finds each promise that a layer breaks."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError, ShapeError
from mtf_models.layers.dense import dense
from mtf_models.testing import Placement, check_layer
from mtf_models.transformer.layer import TransformerLayer

M, F = mtf.Dimension("d_model", 4), mtf.Dimension("d_ff", 4)
X = {"x": ("batch:4,length:2,d_model:4", np.random.default_rng(0).normal(size=(4, 2, 4)))}
SPLIT = [Placement("r:2;c:2", "batch:r,d_ff:c")]


def layer(x):
    return mtf.tanh(dense(x, [F], use_bias=False))


def broken(function, promise, **options):
    with pytest.raises(AssertionError) as error:
        check_layer(function, X, placements=SPLIT, promises=[promise], modes=["eager"], **options)
    return str(error.value)


def test_a_layer_that_keeps_all_passes():
    check_layer(
        layer, X, lambda v, x: np.tanh(x @ v["dense/kernel"]), placements=SPLIT, modes=["compiled"]
    )


def test_another_value_than_the_references_is_told():
    with pytest.raises(AssertionError, match="one device, reference: result 0 differs"):
        check_layer(layer, X, lambda v, x: x @ v["dense/kernel"], promises=[])


def test_a_layer_that_asks_for_its_mesh_is_told():
    message = broken(lambda x: layer(x) * x.mesh.size, "layouts")
    assert message.startswith('mesh "r:2;c:2", layout "batch:r,d_ff:c", eager: result 0 differs')
    assert "gradient of dense/kernel differs" in message


def test_initial_values_that_depend_on_the_mesh_are_told():
    def drawn(x):
        size = x.mesh.size
        return dense(x, [F], kernel_initializer=lambda sizes, seed: np.full(sizes, size, "f"))

    assert "dense/kernel begins with other values" in broken(drawn, "layouts")


def test_a_wrong_gradient_is_told():
    def doubled(x):
        return mtf.custom_gradient(mtf.tanh, lambda x, y, dy: [dy * 9], [x * 1.0]) * mtf.reduce_sum(
            layer(x)
        )

    assert "the slope along a direction is" in broken(doubled, "gradients")


def test_a_loss_of_precision_is_told():
    assert "bfloat16: result 0 differs" in broken(lambda x: layer(x * 1e3 - x * 999.0), "bfloat16")


class Gate(TransformerLayer):
    """A number for each channel."""

    def __init__(self, power=1.0):
        self.power = power

    def call(self, context, x):
        gate = dense(x, [], use_bias=False, variable_dtype=context.variable_dtype, name="gate")
        return x * mtf.sigmoid(gate) * self.power


@pytest.mark.parametrize("gate", [Gate, Gate(2.0)], ids=["class", "instance"])
def test_layers_of_a_transformer_are_checked(gate):
    power = getattr(gate, "power", 1.0)
    check_layer(
        gate,
        X,
        lambda v, x: power * x / (1 + np.exp(-x @ v["gate/kernel"]))[..., np.newaxis],
        placements=[Placement("r:2;c:2", "batch:r,d_model:c")],
        modes=["eager"],
    )


def test_an_unknown_promise_is_refused():
    with pytest.raises(ConfigError, match="speed.*known: bfloat16, checkpoint"):
        check_layer(layer, X, promises=["speed"])


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(ConfigError, match="no mode 'compile'"):
        check_layer(layer, X, modes=["compile"])
    with pytest.raises(ShapeError, match="returned NoneType; return an mtf.Tensor"):
        check_layer(lambda x: None, X)
