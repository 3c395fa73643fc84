"""What a router says of the tokens of a group, and what a routing makes of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.moe.slots import entries_of


@dataclass(frozen=True)
class Gates:
    """The logits of a router, and what room there is.

    Attributes:
        logits: [..., group, experts] float32.
        real: [..., group] float32, 1 at tokens and 0 at padding; None if all are tokens.
        capacity: how many slots an expert has in each group.
        counts_padding: whether averages over a group are over its positions, as in the original;
            else over its tokens.
    """

    logits: Tensor
    real: Tensor | None
    capacity: int
    counts_padding: bool = False

    @property
    def experts(self) -> Dimension:
        """The experts."""
        return self.logits.shape.dims[-1]

    @property
    def group(self) -> Dimension:
        """The tokens of a group."""
        return self.logits.shape.dims[-2]

    @functools.cached_property
    def probabilities(self) -> Tensor:
        """[..., group, experts] float32, the softmax of the logits over the experts."""
        return mtf.softmax(self.logits, self.experts)

    def masked(self, x: Tensor) -> Tensor:
        """Zero at padding."""
        return x if self.real is None else mtf.multiply(x, self.real, output_shape=x.shape)

    def at_padding(self, x: Tensor, added: float) -> Tensor:
        """The same at tokens, with `added` at padding."""
        if self.real is None:
            return x
        return mtf.add(x, (1.0 - self.real) * added, output_shape=x.shape)

    def only_tokens(self, experts: Tensor) -> Tensor:
        """[..., choices, group] int32 choices, -1 at padding."""
        if self.real is None:
            return experts
        real = mtf.greater(self.real, 0.0)
        return mtf.where(real, experts, -1, output_shape=experts.shape)

    @functools.cached_property
    def group_tokens(self) -> Tensor:
        """[...] float32, how many tokens a group has."""
        real = self.real
        if real is None:
            real = mtf.ones(self.logits.mesh, self.logits.shape - self.experts)
        return mtf.reduce_sum(real, reduced_dim=self.group)


@dataclass(frozen=True)
class Routes:
    """Which token goes where.

    Attributes:
        slots: [..., choices, group] int32, the slot of each choice of a token, or -1.
        entries: [..., experts, capacity] int32, the inverse: choice * group + token, or -1.
        weights: [..., choices, group] float32, with what weight an expert's output counts.
        balance: scalar float32, how unbalanced the router is: 1 if it is even, the number of
            experts if one gets all.
    """

    slots: Tensor
    entries: Tensor
    weights: Tensor
    balance: Tensor

    @classmethod
    def of(cls, gates: Gates, slots: Tensor, weights: Tensor, balance: Tensor) -> Routes:
        """Routes with the inverse of the slots."""
        capacity = Dimension("expert_capacity", gates.capacity)
        return cls(slots, entries_of(slots, gates.experts, capacity), weights, balance)
