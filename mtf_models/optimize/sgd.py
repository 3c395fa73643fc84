"""Plain gradient descent."""

from __future__ import annotations

from mtf_models.configurable import configurable
from mtf_models.mesh import Shape, Tensor
from mtf_models.optimize.optimizer import GIN_MODULE, Optimizer


@configurable(module=GIN_MODULE)
class SgdOptimizer(Optimizer):
    """Subtracts the gradient times the learning rate; has no slots.

    Args:
        learning_rate: a constant for runs without a schedule.
    """

    def slot_shapes(self, name: str, shape: Shape) -> dict[str, Shape]:
        """None."""
        return {}

    def _step(
        self,
        name: str,
        value: Tensor,
        gradient: Tensor,
        slots: dict[str, Tensor],
        learning_rate: Tensor,
        step: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return gradient * learning_rate, {}

    def _kind(self, name: str) -> str:
        return ""
