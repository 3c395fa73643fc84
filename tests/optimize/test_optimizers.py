"""Each optimizer against NumPy, on one device and on meshes, eager and compiled."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError, ShapeError
from mtf_models.optimize import (
    AdafactorOptimizer,
    AdamW,
    AdamWeightDecayOptimizer,
    MomentumOptimizer,
    SgdOptimizer,
)

NAME = "encoder/layer/kernel"
SHAPE = "d_model:16 d_ff:32"
LR = 0.02
MESHES = {
    "one device": ("", ""),
    "one axis": ("batch:8", "d_ff:batch"),
    "both axes": ("batch:2;model:4", "batch:batch,d_model:batch,d_ff:model"),
    "other order": ("model:4;batch:2", "d_model:model,heads:model"),
}
CASES = {
    "adafactor, factored": (
        AdafactorOptimizer(min_dim_size_to_factor=8),
        "adafactor",
        {"smallest": 8},
    ),
    "adafactor, whole": (AdafactorOptimizer(), "adafactor", {}),
    "adafactor, first moment": (
        AdafactorOptimizer(min_dim_size_to_factor=8, beta1=0.9),
        "adafactor",
        {"smallest": 8, "beta1": 0.9},
    ),
    "adam without correction": (
        AdamWeightDecayOptimizer(weight_decay_rate=0.1),
        "adam",
        {"epsilon": 1e-6, "decay": 0.1, "corrected": False},
    ),
    "adamw": (
        AdamW(weight_decay_rate=0.1),
        "adam",
        {"epsilon": 1e-8, "decay": 0.1, "corrected": True},
    ),
    "momentum": (MomentumOptimizer(momentum=0.9), "momentum", {"momentum": 0.9}),
    "sgd": (SgdOptimizer(), "sgd", {}),
}


def data():
    random = np.random.default_rng(1)
    value = random.normal(size=[16, 32]).astype(np.float32)
    # Rows and steps of different sizes, so that moments, clipping and their averages matter.
    sizes = 10.0 ** random.uniform(-3, 1, size=[3, 16, 1])
    return value, list((random.normal(size=[3, 16, 32]) * sizes).astype(np.float32))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("case", CASES)
def test_three_steps(train, expected, case, mesh, compiled):
    optimizer, reference, options = CASES[case]
    value, gradients = data()
    shape, layout = MESHES[mesh]
    mesh = mtf.Mesh(shape, layout=layout)
    found, slots = train(optimizer, NAME, SHAPE, value, gradients, LR, mesh, compiled)
    wanted, wanted_slots = getattr(expected, reference)(value, gradients, LR, **options)
    np.testing.assert_allclose(found - value, wanted - value, rtol=1e-5, atol=3e-7)
    assert set(slots) == {NAME + suffix for suffix in wanted_slots}
    for suffix, slot in wanted_slots.items():
        np.testing.assert_allclose(slots[NAME + suffix], slot, rtol=1e-5, atol=1e-8)


def test_the_first_steps_of_adam_by_hand(train):
    gradients = [np.full([1], 5.0, np.float32)]
    value = np.zeros([1], np.float32)
    raw, _ = train(AdamWeightDecayOptimizer(), NAME, "d:1", value, gradients, 0.1)
    assert raw == pytest.approx([-0.1 * 0.1 / 0.001**0.5], rel=1e-5)
    corrected, _ = train(AdamW(weight_decay_rate=0.0), NAME, "d:1", value, gradients, 0.1)
    assert corrected == pytest.approx([-0.1], rel=1e-6)


def test_momentum_moves_at_the_first_step(train):
    value, gradient = np.full([1], 3.0, np.float32), np.full([1], 2.0, np.float32)
    optimizer = MomentumOptimizer(momentum=0.5)
    found, slots = train(optimizer, "w", "d:1", value, [gradient] * 2, 0.1)
    assert found == pytest.approx([3.0 - 0.2 - (0.5 * 0.2 + 0.2)])
    assert slots["w_momentum_v"] == pytest.approx([0.3])


@pytest.mark.parametrize("optimizer", [AdamWeightDecayOptimizer, AdamW])
def test_variables_are_excluded_from_weight_decay_by_pattern(train, optimizer):
    made = optimizer(weight_decay_rate=0.5, exclude_from_weight_decay=["norm", "bias$"])
    value, nothing = np.ones([2], np.float32), [np.zeros([2], np.float32)]
    names = ["encoder/rms_norm/scale", "wi/bias", "bias/kernel"]
    found = {name: train(made, name, "d:2", value, nothing, 0.1)[0][0] for name in names}
    assert found == pytest.approx({names[0]: 1.0, names[1]: 1.0, names[2]: 0.95})


def test_all_bad_patterns_are_named():
    with pytest.raises(ConfigError, match=r"'\*a'.*'b\('"):
        AdamW(exclude_from_weight_decay=["*a", "norm", "b("])


@pytest.mark.parametrize("case", CASES)
def test_bfloat16_variables_are_updated_in_float32(train, expected, case):
    optimizer, reference, options = CASES[case]
    value, gradients = (tf.cast(x, tf.bfloat16).numpy() for x in data())
    found, slots = train(optimizer, NAME, SHAPE, value, gradients[:1], LR)
    exact = value.astype(np.float64), gradients[:1].astype(np.float64)
    wanted, wanted_slots = getattr(expected, reference)(*exact, LR, **options)
    assert found.dtype == value.dtype
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2**-8, atol=1e-6)
    for suffix, slot in wanted_slots.items():
        assert slots[NAME + suffix].dtype == np.float32
        np.testing.assert_allclose(slots[NAME + suffix], slot, rtol=1e-5, atol=1e-8)


def test_a_gradient_of_other_dimensions_is_refused():
    mesh = mtf.Mesh()
    value, gradient = mtf.zeros(mesh, "a:2 b:3"), mtf.zeros(mesh, "a:2")
    scalar = mtf.constant(mesh, 0.1)
    with pytest.raises(ShapeError, match=r"w is Shape\[a=2, b=3\] and its gradient Shape\[a=2\]"):
        SgdOptimizer().update("w", value, gradient, {}, scalar, scalar)


def test_the_schedule_comes_before_the_constant_of_the_constructor():
    assert SgdOptimizer(learning_rate=0.5).rate(0.1, 3) == 0.1
    assert SgdOptimizer(learning_rate=0.5).rate(None, 3) == 0.5


def test_only_adafactor_has_a_learning_rate_of_its_own():
    for optimizer in (SgdOptimizer(), MomentumOptimizer(momentum=0.9), AdamW()):
        with pytest.raises(ConfigError, match="no learning rate of its own"):
            optimizer.rate(None, 0)
