"""Optimizers with learning rates of their own for some variables."""

import gin
import pytest

from mtf_models.errors import ConfigError
from mtf_models.optimize import (
    AdafactorOptimizer,
    AdafactorWithMultiLRSchedule,
    AdamWithMultiLRSchedule,
    SgdOptimizer,
)

KINDS = (AdafactorWithMultiLRSchedule, AdamWithMultiLRSchedule)


def half_of_the_run(step, total_train_steps):
    return 0.5 * step / total_train_steps


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_expression_that_is_found_counts(kind):
    made = kind(
        variable_search=["layer_norm", "encoder.*scale"],
        alt_lr_schedules=[[0.2, half_of_the_run], None],
    )
    rates = made.rates(0.01, 10, 100)
    assert rates == [0.01, pytest.approx(0.2 * 0.05), 0.01]
    names = ("decoder/q", "decoder/layer_norm/scale", "encoder/layer_norm/scale")
    assert [made.rate_of(name) for name in names] == [0, 1, 2]
    assert made.number_of_rates == 3


def test_others_have_one_rate():
    assert SgdOptimizer().rates(0.5, 3, 10) == [0.5]
    assert SgdOptimizer().rate_of("any") == 0


def test_bindings_of_the_base_count(no_bindings):
    gin.parse_config("AdafactorOptimizer.beta1 = 0.9")
    assert "x_slot_m" in AdafactorWithMultiLRSchedule().slot_shapes("x", [])
    assert "x_slot_m" not in AdafactorOptimizer(beta1=0.0).slot_shapes("x", [])


@pytest.mark.parametrize("kind", KINDS)
def test_refusals(kind):
    with pytest.raises(ConfigError, match=r"1 regular expressions .* and 2 schedules"):
        kind(variable_search=["a"], alt_lr_schedules=[0.1, 0.2])
    with pytest.raises(ConfigError, match=r"variable_search holds what is no regular expression"):
        kind(variable_search=["("], alt_lr_schedules=[0.1])


@pytest.mark.parametrize("kind", KINDS)
def test_expressions_by_which_no_variable_has_its_rate_are_refused(kind):
    searched = ["wi", "no_such", "Dense", "kernel"]
    made = kind(variable_search=searched, alt_lr_schedules=[0.1] * 4)
    with pytest.raises(ConfigError) as refused:
        made.check_names(["q", "Dense/wi/kernel", "Dense/wo"])
    message = str(refused.value)
    assert "'wi' is found in names in which a later one is found too" in message
    assert "'no_such' is found in no name" in message
    assert "'Dense'" not in message and "'kernel'" not in message
    kind(variable_search=["q", "wi"], alt_lr_schedules=[0.1] * 2).check_names(["q", "Dense/wi"])
