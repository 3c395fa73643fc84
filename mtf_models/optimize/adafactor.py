"""Adafactor: second moments kept as row and column means, steps relative to the parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mtf_models.configurable import configurable
from mtf_models.mesh import (
    Dimension,
    Shape,
    Tensor,
    maximum,
    pow,
    reduce_mean,
    rsqrt,
    sqrt,
    square,
    to_float,
)
from mtf_models.mesh.initializers import unit_scaling_convention
from mtf_models.optimize.optimizer import GIN_MODULE, Optimizer, moving_average, texts

DecayRate = Callable[[Tensor], Tensor]
"""Takes the step, an int32 scalar; gives the decay of the second moments, a float32 scalar."""


@configurable(module=GIN_MODULE)
def adafactor_decay_rate_pow(exponent: float = 0.8, offset: int = 0) -> DecayRate:
    """The decay `1 - t^-exponent` at the t-th step after `offset`, zero at the first.

    Args:
        exponent: how fast the average gets longer.
        offset: the step at which it starts, for fine-tuning.
    """
    return lambda step: 1.0 - pow(to_float(step) - offset + 1.0, -exponent)


def adafactor_decay_rate_adam(beta2: float) -> DecayRate:
    """The decay that makes the average Adam's bias-corrected one.

    Args:
        beta2: Adam's decay of the second moment.
    """

    def decay(step: Tensor) -> Tensor:
        t = to_float(step) + 1.0
        return beta2 * (1.0 - pow(beta2, t - 1.0)) / (1.0 - pow(beta2, t))

    return decay


@configurable(module=GIN_MODULE)
class AdafactorOptimizer(Optimizer):
    """Adafactor (Shazeer and Stern, 2018, https://arxiv.org/abs/1804.04235).

    A variable is factored if its two largest dimensions, stacked ones left out, both have at least
    `min_dim_size_to_factor` elements; of equal ones the first counts as larger. Its slots are then
    `<name>_slot_vr`, without the largest dimension, and `<name>_slot_vc`, without the second
    largest. Other variables have `<name>_slot_v`; with `beta1` all have `<name>_slot_m` too.

    Args:
        multiply_by_parameter_scale: whether the learning rate is relative to the size of the
            variable, its root mean square.
        learning_rate: a constant for runs without a schedule; None for
            `min(1 / sqrt(step + 1), 0.01)`, a twentieth of that if the steps are not relative to
            the variables, unless these have the scale 1 by the unit scaling convention.
        decay_rate: the decay of the second moments: a number, a function of the step, or None for
            `adafactor_decay_rate_pow()`.
        beta1: the decay of the first moment; 0 keeps none.
        clipping_threshold: the largest root mean square of an update before the learning rate;
            None does not clip.
        factored: whether to factor at all.
        epsilon1: added to squared gradients.
        epsilon2: the smallest size that a variable counts with.
        min_dim_size_to_factor: see above.
        stacked_dim_names: dimensions along which independent variables are stacked: each is
            scaled and clipped by its own root mean squares.
        exclude_from_parameter_scale: variables whose names contain one of these texts get steps
            that are not relative to their size.
    """

    def __init__(
        self,
        multiply_by_parameter_scale: bool = True,
        learning_rate: float | None = None,
        decay_rate: float | DecayRate | None = None,
        beta1: float = 0.0,
        clipping_threshold: float | None = 1.0,
        factored: bool = True,
        epsilon1: float = 1e-30,
        epsilon2: float = 1e-3,
        min_dim_size_to_factor: int = 128,
        stacked_dim_names: str | Sequence[str] | None = None,
        exclude_from_parameter_scale: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(learning_rate)
        self._multiply_by_parameter_scale = multiply_by_parameter_scale
        self._decay_rate = adafactor_decay_rate_pow() if decay_rate is None else decay_rate
        self._beta1 = beta1
        self._clipping_threshold = clipping_threshold
        self._factored = factored
        self._epsilon1 = epsilon1
        self._epsilon2 = epsilon2
        self._min_dim_size_to_factor = min_dim_size_to_factor
        self._stacked_dim_names = texts(stacked_dim_names)
        self._exclude_from_parameter_scale = texts(exclude_from_parameter_scale)

    def slot_shapes(self, name: str, shape: Shape) -> dict[str, Shape]:
        """The factors of the second moment, or the moment itself; with `beta1` the first too."""
        slots = self._moment_shapes(name, shape)
        return slots | {f"{name}_slot_m": shape} if self._beta1 else slots

    def _step(
        self,
        name: str,
        value: Tensor,
        gradient: Tensor,
        slots: dict[str, Tensor],
        learning_rate: Tensor,
        step: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        decay = self._decay_rate(step) if callable(self._decay_rate) else self._decay_rate
        scaled, new_slots = self._divided_by_root_moment(name, gradient, slots, decay)
        if self._clipping_threshold is not None:
            scaled = scaled / maximum(self._rms(scaled) / self._clipping_threshold, 1.0)
        change = scaled * self._scale(name, value, learning_rate)
        if self._beta1:
            slot = f"{name}_slot_m"
            change = new_slots[slot] = moving_average(slots[slot], change, self._beta1)
        return change, new_slots

    def _divided_by_root_moment(
        self, name: str, gradient: Tensor, slots: dict[str, Tensor], decay: Tensor | float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The gradient over the root of its second moment, and the new slots of the moment."""
        squared = square(gradient) + self._epsilon1
        moments = {
            slot: moving_average(slots[slot], reduce_mean(squared, output_shape=shape), decay)
            for slot, shape in self._moment_shapes(name, gradient.shape).items()
        }
        largest = self._factored_dimensions(gradient.shape)
        if not largest:
            (v,) = moments.values()
            return gradient * rsqrt(v), moments
        vr, vc = moments.values()
        row_factor = rsqrt(vr / reduce_mean(vr, reduced_dim=largest[1]))
        return gradient * row_factor * rsqrt(vc), moments

    def _scale(self, name: str, value: Tensor, learning_rate: Tensor) -> Tensor:
        if not self._kind(name):
            return learning_rate
        return maximum(self._rms(value), self._epsilon2) * learning_rate

    def _kind(self, name: str) -> bool:
        """Whether steps of the variable are relative to its size."""
        excluded = any(text in name for text in self._exclude_from_parameter_scale)
        return self._multiply_by_parameter_scale and not excluded

    def _rms(self, x: Tensor) -> Tensor:
        """The root mean square over all dimensions that are not stacked."""
        kept = Shape([d for d in x.shape if d.name in self._stacked_dim_names])
        return sqrt(reduce_mean(square(x), output_shape=kept))

    def _moment_shapes(self, name: str, shape: Shape) -> dict[str, Shape]:
        """The slots of the second moment."""
        largest = self._factored_dimensions(shape)
        if not largest:
            return {f"{name}_slot_v": shape}
        return {f"{name}_slot_vr": shape - largest[0], f"{name}_slot_vc": shape - largest[1]}

    def _factored_dimensions(self, shape: Shape) -> tuple[Dimension, Dimension] | None:
        """The largest and the second largest dimension, if the variable is factored."""
        candidates = [d for d in shape if d.name not in self._stacked_dim_names]
        if not self._factored or len(candidates) < 2:
            return None
        first, second = sorted(candidates, key=lambda d: -d.size)[:2]
        return (first, second) if second.size >= self._min_dim_size_to_factor else None

    def _default_rate(self, step: int) -> float:
        rate = min(1.0 / math.sqrt(step + 1), 0.01)
        relative = self._multiply_by_parameter_scale or unit_scaling_convention()
        return rate if relative else 0.05 * rate
