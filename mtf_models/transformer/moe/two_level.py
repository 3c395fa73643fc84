"""A mixture of mixtures: a router chooses groups of experts, then one of each group an expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.activation import Activation
from mtf_models.layers.dense import dense, dense_product
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.moe.dispatch import Dispatch
from mtf_models.transformer.moe.gates import Gates
from mtf_models.transformer.moe.mixture import Mixture
from mtf_models.transformer.moe.routing import ROUTINGS


@configurable(module="mesh_tensorflow.transformer.moe")
@dataclass
class MoE2D(Mixture, TransformerLayer):
    """Experts in `expert_x` groups of `expert_y`; both levels route alike (Shazeer et al. 2017, B).

    The variables are `<moe_gating>_gating/kernel`, `inner_gating/kernel`, one router for each
    group, `wi` and `wo`. What a token gets is weighted by the product of both routers' weights.

    Args:
        expert_x: how many groups there are; `num_experts` is left alone.
        expert_y: how many experts a group has.
        capacity_factor_second_level: slots over slots of the first level.
        hidden_size: the hidden width of an expert.
        activation: a name, or several for gated experts.
    """

    expert_x: int = 8
    expert_y: int = 8
    capacity_factor_second_level: float = 1.0
    hidden_size: int = 4096
    activation: Activation | Sequence[Activation] = "relu"

    capacity_factors = (*Mixture.capacity_factors, "capacity_factor_second_level")

    def __post_init__(self) -> None:
        if self.num_experts not in (Mixture.num_experts, self.expert_x):
            raise ConfigError(
                f"MoE2D.num_experts is {self.num_experts}; it has expert_x = {self.expert_x} "
                f"groups of expert_y = {self.expert_y} experts: bind those instead."
            )
        self.num_experts = self.expert_x
        super().__post_init__()
        require_positive("MoE2D", expert_y=self.expert_y, hidden_size=self.hidden_size)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        groups, routes = self.route(context, x)
        first = Dispatch(routes)
        made = self._second_level(context, first.to_experts(groups.split(x)), first.filled())
        return groups.join(first.from_experts(made))

    def _second_level(self, context: Context, x: Tensor, filled: Tensor) -> Tensor:
        """[experts, ..., d_model]: each group of experts routes the tokens that it got."""
        outer = x.shape.dims[0]
        group = Dimension("group", filled.shape.size // outer.size)
        tokens = mtf.reshape(x, Shape([outer, group, x.shape.dims[-1]]))
        logits = dense(
            mtf.to_float(tokens),
            [Dimension("expert_unsplit", self.expert_y)],
            expert_dims=[outer],
            use_bias=False,
            variable_dtype=context.variable_dtype._replace(activation=tf.float32),
            name="inner_gating",
        )
        gates = Gates(
            logits,
            mtf.reshape(filled, Shape([outer, group])),
            self._slots(group.size, self.expert_y, self.capacity_factor_second_level),
            counts_padding=self.balance_over == "positions",
        )
        routes = ROUTINGS[self.moe_gating](gates, self._options(context.is_training))
        if not context.incremental:
            context.add_loss("inner_balance_loss", routes.balance * self.loss_coef)
        second = Dispatch(routes, experts="expert_y")
        made = second.from_experts(self._experts(context, second.to_experts(tokens), outer))
        return mtf.reshape(made, x.shape)

    def _experts(self, context: Context, x: Tensor, outer: Dimension) -> Tensor:
        experts = [x.shape.dims[0], outer]
        dtype = context.variable_dtype
        hidden = Dimension("expert_hidden", self.hidden_size)
        h = dense_product(
            x, [hidden], self.activation, expert_dims=experts, variable_dtype=dtype, name="wi"
        )
        width = [x.shape.dims[-1]]
        return dense(h, width, expert_dims=experts, use_bias=False, variable_dtype=dtype, name="wo")
