"""Momentum, against a run of the original, which moves variables by the velocity before the step.

There the first step changes nothing, x1 = x0, and with velocities v1, v2, v3 the values end at
x3 = x0 - v1 - v2. As both first gradients are those of x0, v2 = (momentum + 1) v1. Our first step
goes where its second one does; from these two points everything recorded can be told.
"""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.optimize.momentum import MomentumOptimizer

MOMENTUM = 0.9


@pytest.fixture(scope="module")
def folder(fixtures_dir):
    return fixtures_dir / "optimizer_Momentum"


@pytest.fixture(scope="module")
def train(folder):
    """Makes a trainer of a checkpoint; the operative config names no optimizer."""

    def train(step):
        model = mtf.load_model(folder, step=step)
        return mtf.Trainer(model, MomentumOptimizer(momentum=MOMENTUM), learning_rate=0.1)

    return train


@pytest.fixture(scope="module")
def arrays(folder):
    return np.load(folder / "io.npz")


def test_two_steps(folder, train, arrays):
    start, end = (tf.train.load_checkpoint(f"{folder}/model.ckpt-{step}") for step in (0, 3))
    trainer = train(0)
    features = {name: arrays[f"plain/{name}"] for name in ("inputs", "targets")}
    assert trainer.step(features)["loss"] == pytest.approx(arrays["steps/loss_before"][0], 1e-5)
    names = list(trainer.model.variables)
    first = {}
    for name in names:
        moved = start.get_tensor(name) - end.get_tensor(name)
        first[name] = moved / (2.0 + MOMENTUM)
        velocity = trainer.variables[f"{name}_momentum_v"].numpy()
        _assert_close(velocity, first[name], name)
        _assert_close(start.get_tensor(name) - trainer.variables[name].numpy(), first[name], name)

    assert trainer.step(features)["loss"] == pytest.approx(arrays["steps/loss_before"][2], 1e-5)
    for name in names:
        # Both add the gradient at the same point, to m v1 here and to m (m + 1) v1 there.
        right = end.get_tensor(f"{name}_momentum_v") - MOMENTUM**2 * first[name]
        _assert_close(trainer.variables[f"{name}_momentum_v"].numpy(), right, name)


def test_its_velocities_are_gone_on_from(folder, train):
    trainer = train(3)
    trainer.restore(folder)
    stored = tf.train.load_checkpoint(f"{folder}/model.ckpt-3")
    shapes = stored.get_variable_to_shape_map()
    assert shapes.keys() == {*trainer.variables, "global_step"}
    for name, variable in trainer.variables.items():
        np.testing.assert_array_equal(variable.numpy(), stored.get_tensor(name))


def _assert_close(found, right, name):
    difference = np.max(np.abs(found - right))
    assert difference < 1e-4 * np.max(np.abs(right)), name
