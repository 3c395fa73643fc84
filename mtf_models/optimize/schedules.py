"""Learning-rate schedules: functions of the step and the number of all steps, on the host.

They take the number of steps made before this one. Names, arguments and values are the original's,
also after the end of a run, where some are negative.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence

from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError
from mtf_models.optimize.optimizer import GIN_MODULE as OPTIMIZER_GIN_MODULE

GIN_MODULE = "mesh_tensorflow.transformer.learning_rate_schedules"

Schedule = float | Callable[[int, int], float] | Sequence["Schedule"]
"""A constant, a function of step and total steps, or a list of schedules to multiply."""


def compute(schedule: Schedule | None, step: int, total_train_steps: int) -> float | None:
    """The learning rate that a schedule gives.

    Args:
        schedule: a number, a function called with the next two, a list of these whose product is
            meant, or None.
        step: how many steps were made before this one.
        total_train_steps: how many steps the run has.

    Returns:
        The learning rate; None for None, which leaves it to the optimizer.

    Raises:
        ConfigError: if `schedule` is something else.
    """
    return None if schedule is None else _factor(schedule, step, total_train_steps)


def _product(
    step: int, total_train_steps: int, factors: Sequence[Schedule] = REQUIRED, offset: int = 0
) -> float:
    """The product of several schedules.

    Args:
        step: how many steps were made before this one.
        total_train_steps: how many steps the run has.
        factors: numbers and schedules.
        offset: the step at which the schedules start: it is taken off both steps and total.
    """
    return math.prod(_factor(f, step - offset, total_train_steps - offset) for f in factors)


product_learning_rate = configurable(GIN_MODULE, "product_learning_rate")(_product)
# The original has the same function in two modules, and gin files name it by either.
configurable(OPTIMIZER_GIN_MODULE, "product_learning_rate")(_product)


def _factor(schedule: Schedule, step: int, total_train_steps: int) -> float:
    if callable(schedule):
        return float(schedule(step, total_train_steps))
    if isinstance(schedule, numbers.Real):
        return float(schedule)
    if isinstance(schedule, list | tuple):
        return product_learning_rate(step, total_train_steps, factors=schedule)
    raise ConfigError(
        f"{schedule!r} is no learning-rate schedule: give a number, a function of (step, "
        "total_train_steps) such as @learning_rate_schedule_noam, or a list of these."
    )


@configurable(GIN_MODULE)
def linear_decay(step: int, total_train_steps: int, steps_or_fraction: float = 0.1) -> float:
    """1, then down to 0 in a straight line at the end of the run.

    Args:
        step: how many steps were made before this one.
        total_train_steps: how many steps the run has.
        steps_or_fraction: how many steps the way down takes, if above 1; else a part of the run.
    """
    span = _steps("linear_decay.steps_or_fraction", steps_or_fraction, total_train_steps)
    return min(1.0, (total_train_steps - step) / span)


@configurable(GIN_MODULE)
def linear_warmup(step: int, total_train_steps: int, steps_or_fraction: float = 10000) -> float:
    """From 0 up to 1 in a straight line, then 1.

    Args:
        step: how many steps were made before this one.
        total_train_steps: how many steps the run has.
        steps_or_fraction: how many steps the way up takes, if above 1; else a part of the run.
    """
    span = _steps("linear_warmup.steps_or_fraction", steps_or_fraction, total_train_steps)
    return min(1.0, step / span)


@configurable(GIN_MODULE)
def truncated_rsqrt(step: int, total_train_steps: int, warmup_steps: float = 10000) -> float:
    """One over the root of the step, constant before `warmup_steps`."""
    return _rsqrt("truncated_rsqrt.warmup_steps", step, warmup_steps)


@configurable(GIN_MODULE)
def constant(step: int, total_train_steps: int, value: float = 1.0) -> float:
    """The same factor at every step."""
    return value


@configurable(GIN_MODULE)
def constant_learning_rate(
    step: int, total_train_steps: int, learning_rate: float = REQUIRED
) -> float:
    """The same learning rate at every step."""
    return learning_rate


@configurable(GIN_MODULE)
def linear_decay_learning_rate(
    step: int, total_train_steps: int, initial_lr: float = 0.1, offset: int = 0
) -> float:
    """From `initial_lr` at step `offset` down to 0 at the end of the run, in a straight line."""
    span = _positive(
        "total_train_steps - linear_decay_learning_rate.offset", total_train_steps - offset
    )
    return initial_lr * min(1.0, (total_train_steps - step) / span)


@configurable(GIN_MODULE)
def learning_rate_schedule_noam(
    step: int,
    total_train_steps: int,
    warmup_steps: float = 10000,
    linear_decay_fraction: float = 0.1,
    multiplier: float = 1.0,
    offset: int = 0,
) -> float:
    """One over the root of the step, constant first and with a straight way to 0 at the end.

    Args:
        step: how many steps were made before this one.
        total_train_steps: how many steps the run has.
        warmup_steps: how long the rate is constant.
        linear_decay_fraction: the last part of the run, in which the rate is also multiplied by
            what is left of that part; 0 for none.
        multiplier: scales everything.
        offset: the step at which the schedule starts.
    """
    name = "learning_rate_schedule_noam"
    rate = multiplier * _rsqrt(f"{name}.warmup_steps", step - offset, warmup_steps)
    if linear_decay_fraction > 0:
        run = _positive(f"total_train_steps - {name}.offset", total_train_steps - offset)
        rate *= min(1.0, (total_train_steps - step) / (run * linear_decay_fraction))
    return rate


@configurable(GIN_MODULE)
def slanted_triangular(
    step: int,
    total_train_steps: int,
    cut_fraction: float = 0.1,
    ratio: float = 32,
    max_learning_rate: float = 0.01,
    start_step: int = 0,
) -> float:
    """A short straight way up and a long one down (Howard and Ruder, 2018).

    https://arxiv.org/abs/1801.06146.

    Args:
        step: how many steps were made before this one.
        total_train_steps: how many steps the run has.
        cut_fraction: the part of the run that the way up takes.
        ratio: the highest over the lowest rate.
        max_learning_rate: the highest rate.
        start_step: the step at which the way up starts.
    """
    cut = _positive(
        "floor(slanted_triangular.cut_fraction * total_train_steps)",
        math.floor(cut_fraction * total_train_steps),
    )
    _positive("1 - slanted_triangular.cut_fraction", 1.0 - cut_fraction)
    made = step - start_step
    if made < cut:
        height = made / cut
    else:
        height = 1.0 - (made - cut) / (cut * (1.0 / cut_fraction - 1.0))
    return max_learning_rate * (1.0 + height * (ratio - 1.0)) / ratio


def _steps(name: str, steps_or_fraction: float, total_train_steps: int) -> float:
    if steps_or_fraction > 1:
        return steps_or_fraction
    return _positive(f"{name} * total_train_steps", steps_or_fraction * total_train_steps)


def _rsqrt(name: str, step: int, warmup_steps: float) -> float:
    return 1.0 / math.sqrt(_positive(f"max(step, {name})", max(step, warmup_steps)))


def _positive(what: str, value: float) -> float:
    """The value.

    Raises:
        ConfigError: if it is not above zero, where the schedule would divide by it.
    """
    if value <= 0:
        raise ConfigError(
            f"This learning-rate schedule needs {what} above 0; it is {value}. "
            "Mend its arguments or the number of steps."
        )
    return value
