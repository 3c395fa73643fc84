"""Adafactor: factoring, slots, options, and what the original recorded."""

import json
from pathlib import Path

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.optimize import (
    AdafactorOptimizer,
    MomentumOptimizer,
    adafactor_decay_rate_adam,
    adafactor_decay_rate_pow,
)

ORIGINAL_SLOTS = json.loads((Path(__file__).parent / "data" / "original_slots.json").read_text())
KERNEL = "encoder/block_000/layer_001/DenseReluDense/wi/kernel"
BIAS = "encoder/block_000/layer_000/SelfAttention/relative_attention_bias"


@pytest.mark.parametrize(
    ("shape", "slots"),
    [
        ("d_model:768 heads:768", {"_slot_vr": "heads:768", "_slot_vc": "d_model:768"}),
        ("d_model:768 d_ff:3072", {"_slot_vr": "d_model:768", "_slot_vc": "d_ff:3072"}),
        ("d_ff:3072 d_model:768", {"_slot_vr": "d_model:768", "_slot_vc": "d_ff:3072"}),
        ("vocab:32128 d_model:768", {"_slot_vr": "d_model:768", "_slot_vc": "vocab:32128"}),
        ("d_model:512 heads:8 d_kv:64", {"_slot_v": "d_model:512 heads:8 d_kv:64"}),
        ("heads:12 buckets:32", {"_slot_v": "heads:12 buckets:32"}),
        ("d_model:768", {"_slot_v": "d_model:768"}),
        (
            "experts:8 d_model:768 d_ff:3072",
            {"_slot_vr": "experts:8 d_model:768", "_slot_vc": "experts:8 d_ff:3072"},
        ),
        (
            "experts:256 d_model:256 d_ff:256",
            {"_slot_vr": "d_model:256 d_ff:256", "_slot_vc": "experts:256 d_ff:256"},
        ),
        ("d_model:127 d_ff:512", {"_slot_v": "d_model:127 d_ff:512"}),
    ],
)
def test_slots_of_the_shapes_of_t5(shape, slots):
    found = AdafactorOptimizer().slot_shapes("a/w", mtf.Shape(shape))
    assert found == {"a/w" + suffix: mtf.Shape(s) for suffix, s in slots.items()}


@pytest.mark.parametrize(
    ("case", "optimizer"),
    [
        ("t5_1_0_tiny", AdafactorOptimizer(min_dim_size_to_factor=32)),
        ("t5_1_1_tiny", AdafactorOptimizer(min_dim_size_to_factor=32)),
        ("lm_tiny", AdafactorOptimizer(min_dim_size_to_factor=32, beta1=0.9)),
        ("optimizer_Momentum", MomentumOptimizer(momentum=0.9)),
    ],
)
def test_slots_are_those_in_the_checkpoints_of_the_original(case, optimizer):
    found = {}
    for name, sizes in ORIGINAL_SLOTS[case]["variables"].items():
        shape = mtf.Shape([(f"dim_{i}", size) for i, size in enumerate(sizes)])
        slots = optimizer.slot_shapes(name, shape)
        found |= {slot: s.to_integer_list for slot, s in slots.items()}
    assert found == ORIGINAL_SLOTS[case]["slots"]


def test_stacked_dimensions_are_never_factored_out():
    optimizer = AdafactorOptimizer(stacked_dim_names=["experts"])
    shape = mtf.Shape("experts:512 d_model:128 d_ff:256")
    assert optimizer.slot_shapes("w", shape) == {
        "w_slot_vr": mtf.Shape("experts:512 d_model:128"),
        "w_slot_vc": mtf.Shape("experts:512 d_ff:256"),
    }
    assert list(optimizer.slot_shapes("w", mtf.Shape("experts:512 d_model:128"))) == ["w_slot_v"]


def random_variable(shape, seed=0):
    random = np.random.default_rng(seed)
    value, *gradients = random.normal(size=[4, *shape]).astype(np.float32)
    return value, [g * scale for g, scale in zip(gradients, [1.0, 30.0, 0.01], strict=True)]


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({"factored": False}, {"smallest": 1000}),
        ({"multiply_by_parameter_scale": False}, {"relative": False}),
        ({"exclude_from_parameter_scale": ["bias", "kernel"]}, {"relative": False}),
        ({"exclude_from_parameter_scale": "kernel"}, {"relative": False}),
        ({"exclude_from_parameter_scale": ["scale"]}, {}),
        ({"clipping_threshold": None}, {"clip": None}),
        ({"clipping_threshold": 0.3}, {"clip": 0.3}),
        ({"decay_rate": 0.9}, {"decay": lambda t: 0.9}),
        (
            {"decay_rate": adafactor_decay_rate_adam(0.9)},
            {"decay": lambda t: 0.9 * (1 - 0.9 ** (t - 1)) / (1 - 0.9**t)},
        ),
        (
            {"decay_rate": adafactor_decay_rate_pow(exponent=0.5, offset=-10)},
            {"decay": lambda t: 1 - (t + 10) ** -0.5},
        ),
        ({"epsilon1": 1e-3, "epsilon2": 5.0}, {"epsilon1": 1e-3, "epsilon2": 5.0}),
        ({"stacked_dim_names": ["stack"]}, {"stacked": 1}),
        ({"stacked_dim_names": "stack", "factored": False}, {"stacked": 1, "smallest": 1000}),
    ],
)
@pytest.mark.parametrize("in_kernels", [False, True])
def test_options(train, expected, options, reference, in_kernels):
    value, gradients = random_variable([3, 8, 16])
    value *= np.array([0.1, 1.0, 3.0], np.float32).reshape([3, 1, 1])
    optimizer = AdafactorOptimizer(min_dim_size_to_factor=8, **options)
    mesh = mtf.Mesh()
    mesh.engine.least_fused = 1 if in_kernels else mesh.engine.least_fused
    found, slots = train(
        optimizer,
        "kernel",
        "stack:3 a:8 b:16",
        value,
        gradients,
        0.02,
        mesh=mesh,
        compiled=in_kernels,
    )
    assert bool(mesh.engine.kernels) == in_kernels
    wanted, wanted_slots = expected.adafactor(
        value, gradients, 0.02, **{"smallest": 8, **reference}
    )
    np.testing.assert_allclose(found - value, wanted - value, rtol=1e-4, atol=3e-6)
    for suffix, slot in wanted_slots.items():
        np.testing.assert_allclose(slots["kernel" + suffix], slot, rtol=1e-5)


@pytest.mark.parametrize("name", ["shared/embedding", KERNEL, "decoder/rms_norm/scale", BIAS])
def test_first_step_with_gradients_of_the_original(train, expected, recorded, name):
    tables = recorded("first_gradients")
    value, gradient = tables[f"value/{name}"], tables[f"grad/{name}"]
    shape = [(f"dim_{i}", size) for i, size in enumerate(value.shape)]
    optimizer = AdafactorOptimizer(min_dim_size_to_factor=32)
    found, _ = train(optimizer, name, shape, value, [gradient], 0.01)
    wanted, _ = expected.adafactor(value, [gradient], 0.01, smallest=32)
    np.testing.assert_allclose(found - value, wanted - value, rtol=1e-4, atol=1e-7)


def test_what_has_no_gradient_is_left_as_the_original_left_it(train, recorded):
    tables = recorded("first_gradients")
    value, gradient = tables[f"value/{BIAS}"], tables[f"grad/{BIAS}"]
    untouched = gradient == 0.0
    assert untouched.any()
    optimizer = AdafactorOptimizer(min_dim_size_to_factor=32)
    found, slots = train(optimizer, BIAS, "heads:4 buckets:32", value, [gradient] * 3, 0.01)
    after = tables[f"after_three_steps/{BIAS}"]
    np.testing.assert_array_equal(found[untouched], after[untouched])
    slot = f"{BIAS}_slot_v"
    np.testing.assert_allclose(
        slots[slot][untouched], tables[f"after_three_steps/{slot}"][untouched], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("recorded_name", "decay"),
    [
        ("adafactor_decay_rate_pow", adafactor_decay_rate_pow()),
        ("adafactor_decay_rate_pow_options", adafactor_decay_rate_pow(exponent=0.5, offset=-10)),
        ("adafactor_decay_rate_adam", adafactor_decay_rate_adam(0.9)),
    ],
)
def test_decay_rates(recorded, recorded_name, decay):
    tables, mesh = recorded("lr_schedules"), mtf.Mesh()
    steps = [mtf.constant(mesh, int(s), dtype=tf.int32) for s in tables["steps"]]
    found = [float(decay(step)) for step in steps]
    np.testing.assert_allclose(found, tables[recorded_name], rtol=1e-6, atol=1e-7)


def test_decay_rate_by_hand():
    mesh, decay = mtf.Mesh(), adafactor_decay_rate_pow()
    found = [float(decay(mtf.constant(mesh, s, dtype=tf.int32))) for s in (0, 1, 9, 999)]
    assert found == pytest.approx([0.0, 0.425651, 0.841511, 0.996019], abs=1e-6)


@pytest.mark.parametrize(
    ("recorded_name", "optimizer"),
    [
        ("adafactor_default_lr", AdafactorOptimizer()),
        ("adafactor_default_lr_no_scale", AdafactorOptimizer(multiply_by_parameter_scale=False)),
    ],
)
def test_learning_rate_without_a_schedule(recorded, recorded_name, optimizer):
    tables = recorded("lr_schedules")
    found = [optimizer.rate(None, int(step)) for step in tables["steps"]]
    np.testing.assert_allclose(found, tables[recorded_name], rtol=1e-6)


def test_gin_sets_the_options(no_bindings):
    gin.parse_config(
        """
        AdafactorOptimizer.beta1 = 0.9
        optimize.AdafactorOptimizer.min_dim_size_to_factor = 32
        AdafactorOptimizer.decay_rate = @mesh_tensorflow.optimize.adafactor_decay_rate_pow()
        adafactor_decay_rate_pow.offset = 5
        """
    )
    slots = AdafactorOptimizer().slot_shapes("w", mtf.Shape("a:32 b:64"))
    assert list(slots) == ["w_slot_vr", "w_slot_vc", "w_slot_m"]
    decay = gin.query_parameter("AdafactorOptimizer.decay_rate").scoped_configurable_fn()
    step = mtf.constant(mtf.Mesh(), 6, dtype=tf.int32)
    assert float(decay(step)) == pytest.approx(1 - 2**-0.8)
