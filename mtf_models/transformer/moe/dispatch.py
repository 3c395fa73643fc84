"""How tokens travel to experts and back: by gathers, and one exchange between devices each way."""

from __future__ import annotations

from collections.abc import Callable

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.transformer.moe.gates import Routes
from mtf_models.transformer.moe.slots import NOWHERE

_SLOT = "slot"


class Dispatch:
    """Brings tokens to the slots of experts and what the experts made of them back.

    The two ways are each other's gradients: both gather, one by the inverse index of the other.

    Args:
        routes: of one routing.
        experts: what the dimension of the experts is called where experts compute.
    """

    def __init__(self, routes: Routes, experts: str = "experts") -> None:
        self.routes = routes
        *self.outer, self.router_experts, self.capacity = routes.entries.shape.dims
        self.choices, self.group = routes.slots.shape.dims[-2:]
        self.experts = Dimension(experts, self.router_experts.size)
        self._slot = Dimension(_SLOT, self.experts.size * self.capacity.size)
        self._entry = Dimension("entries", self.choices.size * self.group.size)
        entries = routes.entries
        filled = mtf.greater_equal(entries, 0)
        self._tokens = mtf.where(filled, mtf.mod(entries, self.group.size), NOWHERE)

    def to_experts(self, tokens: Tensor) -> Tensor:
        """[..., group, d_model] to [experts, ..., expert_capacity, d_model], 0 in empty slots."""
        return self._exchange(_exchanged(tokens, self._to_slots, self._to_tokens))

    def filled(self) -> Tensor:
        """[experts, ..., expert_capacity] float32, 1 in slots that hold a token, else 0."""
        return self._exchange(mtf.to_float(mtf.greater_equal(self.routes.entries, 0)))

    def from_experts(self, outputs: Tensor) -> Tensor:
        """What the experts made to [..., group, d_model], by weights; 0 where none was asked."""
        dims = list((outputs.shape - self.experts).dims)
        dims.insert(len(self.outer), self.experts)
        outputs = mtf.transpose(outputs, Shape(dims))
        width = dims[len(self.outer) + 2 :]
        there = Shape([*self.outer, self.router_experts, self.capacity, *width])
        outputs = mtf.reshape(outputs, there)
        weights = mtf.cast(self._slot_weights(), outputs.dtype)
        weighted = mtf.multiply(outputs, weights, output_shape=there)
        return _exchanged(weighted, self._to_tokens, self._to_slots)

    def _exchange(self, slots: Tensor) -> Tensor:
        there = mtf.reshape(slots, self._at_experts(slots.shape))
        return mtf.transpose(there, Shape([self.experts]) + (there.shape - self.experts))

    def _at_experts(self, shape: Shape) -> Shape:
        """The shape in which experts are split over devices, and groups no longer if they cannot.

        Renaming is re-laying: where a split goes from groups to experts this is an all-to-all.
        """
        mesh = self.routes.slots.mesh
        return Shape(
            self.experts
            if d == self.router_experts
            else Dimension(f"{d.name}_unsplit", d.size)
            if d in self.outer and mesh.share_an_axis(self.experts, d)
            else d
            for d in shape
        )

    def _to_slots(self, tokens: Tensor) -> Tensor:
        return mtf.gather(tokens, self._tokens, self.group)

    def _to_tokens(self, slots: Tensor) -> Tensor:
        """The sum over the choices of a token of what is in its slots."""
        width = slots.shape.dims[len(self.outer) + 2 :]
        flat = mtf.reshape(slots, Shape([*self.outer, self._slot, *width]))
        shape = Shape([*self.outer, self.group])
        total = None
        for number in range(self.choices.size):
            places = mtf.slice(self.routes.slots, number, 1, self.choices.name)
            found = mtf.gather(flat, mtf.reshape(places, shape), self._slot)
            total = found if total is None else total + found
        return total

    def _slot_weights(self) -> Tensor:
        """[..., experts, expert_capacity], the weights of choices in the slots that they have."""
        choices = self.routes.weights.shape
        slots = mtf.reshape(self.routes.slots, Shape([*self.outer, self._entry]))

        def to_slots(weights: Tensor) -> Tensor:
            flat = mtf.reshape(weights, slots.shape)
            return mtf.gather(flat, self.routes.entries, self._entry)

        def to_choices(weights: Tensor) -> Tensor:
            flat = mtf.reshape(weights, Shape([*self.outer, self._slot]))
            return mtf.reshape(mtf.gather(flat, slots, self._slot), choices)

        return _exchanged(self.routes.weights, to_slots, to_choices)


def _exchanged(
    x: Tensor, there: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]
) -> Tensor:
    """`there(x)`, whose gradient is `back`."""
    return mtf.custom_gradient(there, lambda x, y, dy: [back(dy)], [x])
