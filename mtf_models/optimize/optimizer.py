"""The contract of optimizers: pure updates of one named variable at a time."""

from __future__ import annotations

import abc
import re
from collections.abc import Collection, Hashable, Sequence

from mtf_models.errors import ConfigError, ShapeError
from mtf_models.mesh import Shape, Tensor, cast, fused, to_float

GIN_MODULE = "mesh_tensorflow.optimize"
"""Where gin files look for optimizers."""


class Optimizer(abc.ABC):
    """Turns a gradient into the next value of a variable and of its slots.

    Slots are the optimizer's own variables: float32, zero at the start, not trainable, laid out by
    their own dimensions. An optimizer holds hyper-parameters and no state.

    Args:
        learning_rate: a constant for runs without a schedule.
    """

    def __init__(self, learning_rate: float | None = None) -> None:
        self.learning_rate = learning_rate

    @abc.abstractmethod
    def slot_shapes(self, name: str, shape: Shape) -> dict[str, Shape]:
        """The slots of a variable.

        Args:
            name: the full name of the variable.
            shape: its shape.

        Returns:
            The full name of each slot, which is its name in checkpoints, and its shape.
        """

    @abc.abstractmethod
    def _step(
        self,
        name: str,
        value: Tensor,
        gradient: Tensor,
        slots: dict[str, Tensor],
        learning_rate: Tensor,
        step: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What to subtract from the value, and the new slots; everything is float32."""

    def update(
        self,
        name: str,
        value: Tensor,
        gradient: Tensor,
        slots: dict[str, Tensor],
        learning_rate: Tensor,
        step: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """One step of one variable; computes in float32 and changes nothing in place.

        Args:
            name: the full name of the variable.
            value: its value, in any floating dtype.
            gradient: of the same dimensions, in any floating dtype.
            slots: the present values of what `slot_shapes` names, float32.
            learning_rate: float32 scalar, as `rate` gives it.
            step: int32 scalar, how many steps were made before this one.

        Returns:
            The new value, in the dtype of `value`, and the new slots under the same names.

        Raises:
            ShapeError: if `gradient` has other dimensions than `value`.
        """
        if set(gradient.shape.dims) != set(value.shape.dims):
            raise ShapeError(
                f"{name} is {value.shape} and its gradient {gradient.shape}: an update needs equal "
                "dimensions."
            )
        names = list(slots)

        def updated(
            value: Tensor, gradient: Tensor, rate: Tensor, step: Tensor, *states: Tensor
        ) -> list[Tensor]:
            start, old = to_float(value), dict(zip(names, states, strict=True))
            change, new = self._step(name, start, to_float(gradient), old, rate, step)
            return [cast(start - change, value.dtype), *(new[slot] for slot in names)]

        inputs = [value, gradient, learning_rate, step, *slots.values()]
        kind = self._kind(name)
        results = updated(*inputs) if kind is None else fused((self, kind), updated, inputs)
        return results[0], dict(zip(names, results[1:], strict=True))

    def _kind(self, name: str) -> Hashable:
        """What of its name the step of a variable depends on, its slots' names aside.

        One kernel updates all variables of a kind that have the same shape. None, as here, says
        that nothing is known, and each operation of a step runs by itself.
        """
        return None

    def rate(self, scheduled: float | None, step: int) -> float:
        """The learning rate of a step.

        Args:
            scheduled: what the schedule of the run says, or None without a schedule.
            step: how many steps were made before this one.

        Returns:
            The scheduled rate, else the constant that the constructor was given, else the
            optimizer's own default.

        Raises:
            ConfigError: if there is none of these.
        """
        if scheduled is not None:
            return scheduled
        return self._default_rate(step) if self.learning_rate is None else self.learning_rate

    number_of_rates = 1
    """How many learning rates a step has: one, unless some variables have their own."""

    def rates(self, scheduled: float | None, step: int, total_train_steps: int) -> list[float]:
        """The learning rates of a step, `number_of_rates` of them, that of the run first.

        Args:
            scheduled: see `rate`.
            step: see `rate`.
            total_train_steps: how many steps the run has.

        Raises:
            ConfigError: if there is none.
        """
        return [self.rate(scheduled, step)]

    def rate_of(self, name: str) -> int:
        """Which of `rates` a variable is updated at, by its full name."""
        return 0

    def check_names(self, names: Collection[str]) -> None:
        """Refuses options that say something of variables that are not there.

        Args:
            names: the full names of the variables that are trained.

        Raises:
            ConfigError: listing all of these options.
        """
        del names  # No option of most optimizers names variables.

    def _default_rate(self, step: int) -> float:
        raise ConfigError(
            f"{type(self).__name__} has no learning rate of its own for step {step}, and the run "
            "has no schedule. Bind run.learning_rate_schedule, or give the optimizer a constant."
        )


def moving_average(average: Tensor, value: Tensor, decay: Tensor | float) -> Tensor:
    """`decay * average + (1 - decay) * value`."""
    return average * decay + value * (1.0 - decay)


def texts(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """A list of texts from an option that may be one text, several or None."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def patterns(option: str, expressions: Sequence[str]) -> list[re.Pattern[str]]:
    """The regular expressions of an option.

    Args:
        option: its name, for messages.
        expressions: what it holds.

    Raises:
        ConfigError: listing all that cannot be read.
    """
    found, faults = [], []
    for expression in expressions:
        try:
            found.append(re.compile(expression))
        except re.error as error:
            faults.append(f"{expression!r} ({error})")
    if faults:
        raise ConfigError(
            f"{option} holds what is no regular expression: {', '.join(faults)}. "
            "Escape special characters with a backslash."
        )
    return found
