"""Optimizers on one variable: ours on any mesh, and the same again in NumPy."""

from pathlib import Path
from types import SimpleNamespace

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf


@pytest.fixture(scope="session")
def recorded():
    """Numbers that the original gave, by file name."""
    folder = Path(__file__).parent / "data"
    return lambda name: np.load(folder / f"{name}.npz")


@pytest.fixture
def no_bindings():
    """An empty gin configuration, before and after."""
    gin.clear_config()
    yield
    gin.clear_config()


@pytest.fixture
def train():
    """Runs one of our optimizers."""
    return _train


@pytest.fixture
def expected():
    """The optimizers from their papers, in float64: what ours must equal."""
    return SimpleNamespace(adafactor=_adafactor, adam=_adam, momentum=_momentum, sgd=_sgd)


def _train(optimizer, name, shape, value, gradients, lr, mesh=None, compiled=False, first_step=0):
    """The value and the slots after one step for each gradient, as arrays."""
    mesh = mesh or mtf.Mesh()
    shape = mtf.Shape(shape)
    slot_shapes = optimizer.slot_shapes(name, shape)

    def step(value, gradient, slots, lr, count):
        value, gradient = mtf.Tensor(mesh, shape, value), mtf.Tensor(mesh, shape, gradient)
        slots = {k: mtf.Tensor(mesh, slot_shapes[k], x) for k, x in slots.items()}
        lr, count = (mtf.Tensor(mesh, mtf.Shape(), x) for x in (lr, count))
        new, new_slots = optimizer.update(name, value, gradient, slots, lr, count)
        assert new.shape == shape
        assert {k: x.shape for k, x in new_slots.items()} == slot_shapes
        return new.value, {k: x.value for k, x in new_slots.items()}

    step = tf.function(step, autograph=False) if compiled else step
    held = mtf.import_tf_tensor(mesh, value, shape).value
    slots = {k: mtf.zeros(mesh, s).value for k, s in slot_shapes.items()}
    for count, gradient in enumerate(gradients, first_step):
        gradient = mtf.import_tf_tensor(mesh, gradient, shape).value
        scalars = mtf.constant(mesh, lr).value, mtf.constant(mesh, count, dtype=tf.int32).value
        with mesh.calling():
            held, slots = step(held, gradient, slots, *scalars)
    return mesh.engine.fetch(held), {k: mesh.engine.fetch(x) for k, x in slots.items()}


def _rms(x, axes=None):
    return np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True))


def _adafactor(
    value,
    gradients,
    lr,
    *,
    smallest=128,
    decay=lambda t: 1 - t**-0.8,
    beta1=0.0,
    clip=1.0,
    relative=True,
    epsilon1=1e-30,
    epsilon2=1e-3,
    stacked=0,
):
    """`stacked`: how many leading axes hold independent variables.

    Returns the last value and the last slots by their suffix.
    """
    value = value.astype(np.float64)
    free = tuple(range(stacked, value.ndim))
    biggest = sorted(free, key=lambda a: (-value.shape[a], a))[:2]
    is_factored = len(biggest) == 2 and value.shape[biggest[1]] >= smallest
    rows, columns, full, m = 0.0, 0.0, 0.0, np.zeros_like(value)
    for t, gradient in enumerate(gradients, 1):
        g = gradient.astype(np.float64)
        squared, rho = g**2 + epsilon1, decay(t)
        if is_factored:
            first, second = biggest
            rows = rho * rows + (1 - rho) * squared.mean(axis=first, keepdims=True)
            columns = rho * columns + (1 - rho) * squared.mean(axis=second, keepdims=True)
            estimate = rows * columns / rows.mean(axis=second, keepdims=True)
        else:
            estimate = full = rho * full + (1 - rho) * squared
        update = g / np.sqrt(estimate)
        if clip is not None:
            update = update / np.maximum(1.0, _rms(update, free) / clip)
        update = update * lr * (np.maximum(epsilon2, _rms(value, free)) if relative else 1.0)
        m = beta1 * m + (1 - beta1) * update
        value = value - m
    slots = {"_slot_m": m} if beta1 else {}
    if is_factored:
        slots |= {"_slot_vr": np.squeeze(rows, first), "_slot_vc": np.squeeze(columns, second)}
    else:
        slots["_slot_v"] = full
    return value, slots


def _adam(value, gradients, lr, *, beta1=0.9, beta2=0.999, epsilon, decay=0.0, corrected):
    value = value.astype(np.float64)
    m = v = np.zeros_like(value)
    for t, gradient in enumerate(gradients, 1):
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient.astype(np.float64) ** 2
        m_hat, v_hat = (m / (1 - beta1**t), v / (1 - beta2**t)) if corrected else (m, v)
        value = value - lr * (m_hat / (np.sqrt(v_hat) + epsilon) + decay * value)
    return value, {"/adam_m": m, "/adam_v": v}


def _momentum(value, gradients, lr, *, momentum):
    value, velocity = value.astype(np.float64), 0.0
    for gradient in gradients:
        velocity = momentum * velocity + lr * gradient.astype(np.float64)
        value = value - velocity
    return value, {"_momentum_v": velocity}


def _sgd(value, gradients, lr):
    return value.astype(np.float64) - lr * np.sum(gradients, 0, np.float64), {}
