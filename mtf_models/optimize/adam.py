"""Adam with decoupled weight decay, as the original has it and as published."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import tensorflow as tf

from mtf_models.configurable import configurable
from mtf_models.mesh import Shape, Tensor, cast, pow, sqrt, square, to_float
from mtf_models.optimize.optimizer import GIN_MODULE, Optimizer, moving_average, patterns, texts


class _Adam(Optimizer):
    """Both moments in slots `<name>/adam_m` and `<name>/adam_v`, and weight decay."""

    def __init__(
        self,
        learning_rate: float | None,
        weight_decay_rate: float,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        exclude_from_weight_decay: str | Sequence[str] | None,
    ) -> None:
        super().__init__(learning_rate)
        self._weight_decay_rate = weight_decay_rate
        self._beta_1 = beta_1
        self._beta_2 = beta_2
        self._epsilon = epsilon
        self._excluded = patterns("exclude_from_weight_decay", texts(exclude_from_weight_decay))

    def slot_shapes(self, name: str, shape: Shape) -> dict[str, Shape]:
        """The first and the second moment."""
        return {f"{name}/adam_m": shape, f"{name}/adam_v": shape}

    def _step(
        self,
        name: str,
        value: Tensor,
        gradient: Tensor,
        slots: dict[str, Tensor],
        learning_rate: Tensor,
        step: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        slot_m, slot_v = self.slot_shapes(name, value.shape)
        m = moving_average(slots[slot_m], gradient, self._beta_1)
        v = moving_average(slots[slot_v], square(gradient), self._beta_2)
        change = self._direction(m, v, step)
        if self._kind(name):
            change = change + value * self._weight_decay_rate
        return change * learning_rate, {slot_m: m, slot_v: v}

    def _kind(self, name: str) -> bool:
        """Whether the variable decays."""
        return bool(self._weight_decay_rate) and not any(p.search(name) for p in self._excluded)

    @abc.abstractmethod
    def _direction(self, m: Tensor, v: Tensor, step: Tensor) -> Tensor:
        """The step from the new moments, before weight decay and learning rate."""


@configurable(module=GIN_MODULE)
class AdamWeightDecayOptimizer(_Adam):
    """Adam without bias correction, with decoupled weight decay, as BERT was trained.

    Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980; weight decay as in `AdamW`. Without the
    correction the first steps are larger: train with a warm-up.

    Args:
        learning_rate: a constant for runs without a schedule.
        weight_decay_rate: how much of the variable, times the learning rate, each step subtracts.
        beta_1: the decay of the first moment.
        beta_2: the decay of the second moment.
        epsilon: added to the root of the second moment.
        exclude_from_weight_decay: variables whose names match one of these regular expressions
            anywhere do not decay.

    Raises:
        ConfigError: if a regular expression cannot be read.
    """

    def __init__(
        self,
        learning_rate: float | None = None,
        weight_decay_rate: float = 0.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            learning_rate, weight_decay_rate, beta_1, beta_2, epsilon, exclude_from_weight_decay
        )

    def _direction(self, m: Tensor, v: Tensor, step: Tensor) -> Tensor:
        return m / (sqrt(v) + self._epsilon)


@configurable(module=GIN_MODULE)
class AdamW(_Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    https://arxiv.org/abs/1711.05101. The moments are corrected for starting at zero by the number
    of steps of the run: where a run goes on from a checkpoint without slots, it starts at a high
    step and its first steps are not corrected.

    Args:
        learning_rate: a constant for runs without a schedule.
        weight_decay_rate: how much of the variable, times the learning rate, each step subtracts.
        beta_1: the decay of the first moment.
        beta_2: the decay of the second moment.
        epsilon: added to the root of the second moment.
        exclude_from_weight_decay: variables whose names match one of these regular expressions
            anywhere do not decay.

    Raises:
        ConfigError: if a regular expression cannot be read.
    """

    def __init__(
        self,
        learning_rate: float | None = None,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        exclude_from_weight_decay: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            learning_rate, weight_decay_rate, beta_1, beta_2, epsilon, exclude_from_weight_decay
        )

    def _direction(self, m: Tensor, v: Tensor, step: Tensor) -> Tensor:
        corrected_m = m / _gathered_weight(self._beta_1, step)
        corrected_v = v / _gathered_weight(self._beta_2, step)
        return corrected_m / (sqrt(corrected_v) + self._epsilon)


def _gathered_weight(decay: float, step: Tensor) -> Tensor:
    """The sum of the weights of a moving average that started at zero."""
    # 1 - decay^t loses four digits in float32 at the first steps.
    t = cast(step, tf.float64) + 1.0
    return to_float(1.0 - pow(decay, t))
