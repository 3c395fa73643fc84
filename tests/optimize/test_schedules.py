"""Learning-rate schedules against the values that the original gave."""

import gin
import numpy as np
import pytest

from mtf_models.errors import ConfigError
from mtf_models.optimize import schedules

TOTAL = 100000
RECORDED = {
    "noam": (schedules.learning_rate_schedule_noam, {}),
    "noam_options": (
        schedules.learning_rate_schedule_noam,
        {"warmup_steps": 1000, "linear_decay_fraction": 0.5, "multiplier": 2.0, "offset": 500},
    ),
    "noam_no_decay": (schedules.learning_rate_schedule_noam, {"linear_decay_fraction": 0.0}),
    "truncated_rsqrt": (schedules.truncated_rsqrt, {}),
    "truncated_rsqrt_warmup_100": (schedules.truncated_rsqrt, {"warmup_steps": 100}),
    "linear_decay": (schedules.linear_decay, {}),
    "linear_decay_whole": (schedules.linear_decay, {"steps_or_fraction": 1.0}),
    "linear_decay_steps": (schedules.linear_decay, {"steps_or_fraction": 95000}),
    "linear_warmup": (schedules.linear_warmup, {}),
    "linear_warmup_fraction": (schedules.linear_warmup, {"steps_or_fraction": 0.01}),
    "constant": (schedules.constant, {"value": 0.3}),
    "constant_default": (schedules.constant, {}),
    "constant_learning_rate": (schedules.constant_learning_rate, {"learning_rate": 0.001}),
    "linear_decay_learning_rate": (schedules.linear_decay_learning_rate, {}),
    "linear_decay_learning_rate_offset": (
        schedules.linear_decay_learning_rate,
        {"initial_lr": 0.02, "offset": 1000},
    ),
    "slanted_triangular": (schedules.slanted_triangular, {}),
    "slanted_triangular_options": (
        schedules.slanted_triangular,
        {"cut_fraction": 0.05, "ratio": 10, "max_learning_rate": 0.5, "start_step": 90},
    ),
    "product": (
        schedules.product_learning_rate,
        {"factors": [0.5, schedules.truncated_rsqrt, schedules.linear_decay]},
    ),
    "product_offset": (
        schedules.product_learning_rate,
        {"factors": [2.0, schedules.linear_warmup, schedules.linear_decay], "offset": 100},
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_values_are_the_originals(recorded, name):
    schedule, options = RECORDED[name]
    tables = recorded("lr_schedules")
    found = [schedule(int(step), TOTAL, **options) for step in tables["steps"]]
    np.testing.assert_allclose(found, tables[name], rtol=3e-6)


@pytest.mark.parametrize(
    ("name", "schedule", "total"),
    [
        ("noam_short_run", schedules.learning_rate_schedule_noam, 20000),
        ("slanted_triangular_short_run", schedules.slanted_triangular, 10000),
    ],
)
def test_values_after_the_end_are_the_originals(recorded, name, schedule, total):
    tables = recorded("lr_schedules")
    found = [schedule(int(step), total) for step in tables["steps"]]
    np.testing.assert_allclose(found, tables[name], rtol=1e-5)


@pytest.mark.parametrize(
    ("schedule", "total", "options", "values"),
    [
        (
            schedules.learning_rate_schedule_noam,
            100000,
            {},
            {0: 0.01, 10000: 0.01, 40000: 0.005, 90000: 0.00333333, 95000: 0.00162221, 100000: 0},
        ),
        (
            schedules.slanted_triangular,
            1000,
            {},
            {0: 0.0003125, 50: 0.00515625, 100: 0.01, 550: 0.00515625, 1000: 0.0003125},
        ),
        (
            schedules.linear_decay_learning_rate,
            100,
            {"initial_lr": 0.001},
            {0: 0.001, 50: 0.0005, 100: 0.0},
        ),
        (
            schedules.linear_decay_learning_rate,
            100,
            {"initial_lr": 0.001, "offset": 50},
            {40: 0.001},
        ),
    ],
)
def test_values_by_hand(schedule, total, options, values):
    found = {step: schedule(step, total, **options) for step in values}
    assert found == pytest.approx(values, rel=1e-5)


def test_what_can_be_a_schedule():
    assert schedules.compute(None, 3, 10) is None
    assert schedules.compute(0.5, 3, 10) == 0.5
    assert schedules.compute(np.float32(0.5), 3, 10) == 0.5
    assert schedules.compute(lambda step, total: step / total, 3, 10) == 0.3
    product = [2.0, lambda step, total: step / total, [0.5, 3]]
    assert schedules.compute(product, 3, 10) == pytest.approx(0.9)
    with pytest.raises(ConfigError, match="'noam' is no learning-rate schedule"):
        schedules.compute("noam", 3, 10)


@pytest.mark.parametrize(
    ("schedule", "options", "named"),
    [
        (schedules.truncated_rsqrt, {"warmup_steps": 0}, "truncated_rsqrt.warmup_steps"),
        (schedules.learning_rate_schedule_noam, {"warmup_steps": 0}, "noam.warmup_steps"),
        (schedules.learning_rate_schedule_noam, {"offset": 100}, "noam.offset"),
        (schedules.linear_warmup, {"steps_or_fraction": 0}, "linear_warmup.steps_or_fraction"),
        (schedules.linear_decay, {"steps_or_fraction": -1}, "linear_decay.steps_or_fraction"),
        (schedules.linear_decay_learning_rate, {"offset": 100}, "learning_rate.offset"),
        (schedules.slanted_triangular, {"cut_fraction": 0.001}, "triangular.cut_fraction"),
        (schedules.slanted_triangular, {"cut_fraction": 1.0}, "triangular.cut_fraction"),
    ],
)
def test_arguments_that_divide_by_zero_are_named(schedule, options, named):
    with pytest.raises(ConfigError, match=named):
        schedule(0, 100, **options)


def test_gin_binds_schedules_under_the_names_of_the_original(no_bindings):
    gin.parse_config(
        """
        learning_rate_schedule_noam.multiplier = 3.0
        learning_rate_schedules.product_learning_rate.offset = 10
        optimize.product_learning_rate.factors = [0.5, @truncated_rsqrt]
        truncated_rsqrt.warmup_steps = 4.0
        learning_rate_schedules.constant.value = 0.25
        """
    )
    assert schedules.learning_rate_schedule_noam(0, 100000) == pytest.approx(0.03)
    # A list is multiplied by learning_rate_schedules.product_learning_rate.
    assert schedules.compute([schedules.truncated_rsqrt, schedules.constant], 26, 100) == (
        pytest.approx(0.25 / 4.0)
    )
    product = gin.get_configurable("mesh_tensorflow.optimize.product_learning_rate")
    assert product(16, 100) == pytest.approx(0.5 / 4.0)


def test_the_bare_name_of_the_product_stays_ambiguous(no_bindings):
    with pytest.raises(KeyError, match="Ambiguous"):
        gin.parse_config("product_learning_rate.offset = 10")
