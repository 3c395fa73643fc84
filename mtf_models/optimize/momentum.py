"""Gradient descent with momentum."""

from __future__ import annotations

from mtf_models.configurable import REQUIRED, configurable
from mtf_models.mesh import Shape, Tensor
from mtf_models.optimize.optimizer import GIN_MODULE, Optimizer


@configurable(module=GIN_MODULE)
class MomentumOptimizer(Optimizer):
    """Subtracts a velocity that each step damps and pushes along the gradient.

    The slot `<name>_momentum_v` becomes `momentum * v + learning_rate * gradient` (Polyak, 1964),
    and the variable moves by this new velocity. The original moves it by the velocity before the
    step: there the first step changes nothing and every later one is late by one. That is not
    reproduced; the slots of its checkpoints hold the same velocity and can be gone on from.

    Args:
        learning_rate: a constant for runs without a schedule.
        momentum: how much of the velocity stays from step to step.
    """

    def __init__(self, learning_rate: float | None = None, momentum: float = REQUIRED) -> None:
        super().__init__(learning_rate)
        self._momentum = momentum

    def slot_shapes(self, name: str, shape: Shape) -> dict[str, Shape]:
        """The velocity."""
        return {f"{name}_momentum_v": shape}

    def _step(
        self,
        name: str,
        value: Tensor,
        gradient: Tensor,
        slots: dict[str, Tensor],
        learning_rate: Tensor,
        step: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        (slot,) = self.slot_shapes(name, value.shape)
        velocity = slots[slot] * self._momentum + gradient * learning_rate
        return velocity, {slot: velocity}

    def _kind(self, name: str) -> str:
        return ""
