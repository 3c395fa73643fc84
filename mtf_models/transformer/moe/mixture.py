"""What all mixtures of experts have in common: groups, capacity, router, dispatch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError
from mtf_models.layers.dense import dense
from mtf_models.layers.noise import multiplicative_jitter
from mtf_models.mesh import Dimension, Tensor, scopes
from mtf_models.transformer.context import Context
from mtf_models.transformer.moe.balance import z_loss
from mtf_models.transformer.moe.dispatch import Dispatch
from mtf_models.transformer.moe.gates import Gates, Routes
from mtf_models.transformer.moe.groups import Groups
from mtf_models.transformer.moe.mixture_faults import check_mixture
from mtf_models.transformer.moe.routing import ROUTINGS, RoutingOptions

Experts = Callable[[Context, Tensor], list[Tensor]]
"""Takes [..., experts, expert_capacity, d_model], returns tensors that differ in the last
dimension only."""

_HISTORICAL = {"rand_1": "switch"}
_TAKE_POLICIES = ("switch", "ntlb", "expert_selection")


@dataclass
class Mixture:
    """Sends each token to some of many experts (Shazeer et al. 2017; Fedus et al. 2021).

    The tokens of a batch fall into groups. In each group an expert has a number of slots, its
    capacity; a token whose experts are full is dropped: its output is 0. The router computes in
    float32, in the variable `<moe_gating>_gating/kernel`.

    Args:
        num_experts: how many there are.
        loss_coef: weight of the balance loss.
        group_size: how many tokens a group has, see `number_of_groups`.
        capacity_factor_train: slots over tokens, in training.
        capacity_factor_eval: slots over tokens, otherwise.
        use_second_place_loss: whether second choices are balanced too.
        second_policy_train: which choices after the first are made, see `RoutingOptions`.
        second_policy_eval: the same, otherwise.
        second_threshold_train: of the policies "threshold" and "random".
        second_threshold_eval: the same, otherwise.
        moe_gating: the routing, one of `ROUTINGS`.
        min_expert_capacity: the least number of slots of an expert in a group. 0 is as 1: an
            expert has a slot even where tokens x factor / experts comes to less than one.
        switch_policy_train: "argmax", "input_dropout" or "input_jitter" (of what the router sees,
            in training), or "sample" (draws the expert).
        switch_policy_eval: the same, otherwise.
        switch_dropout: of "input_dropout".
        switch_temperature: of "sample".
        switch_jitter: of "input_jitter", how far from 1 the factors may be.
        ntlb_top_k: how many experts a token tries with "ntlb".
        z_loss: weight of the router's z-loss; None for none.
        word_embed_mode: what the router sees of `Context.embeddings`, one of `WORD_EMBED_MODES`:
            with "concat" tokens and embeddings side by side, with "add" their sum, with
            "embed_only" embeddings alone; "_stop_grad" passes no gradient on to the embeddings.
            None: tokens alone.
        use_second_place_expert_prob: see `RoutingOptions.second_place`.
        use_second_place_expert_prob_temp: see `RoutingOptions.second_place_temperature`.
        top_n_num_experts_per_token: how many experts a token goes to with "top_n".
        capacity_rounding: whether tokens x factor / experts is rounded "down", as in the original,
            or "up".
        balance_over: whether the balance loss takes its means over the "positions" of a group,
            padding included, as in the original, or over its "tokens".
        groups_follow_mesh: whether there may be more groups where the mesh splits the batch into
            more parts, as in the original; results then depend on the mesh.
        expert_capacity: how many tokens of each sequence an expert takes, whatever the factors are
            and however sequences would fall into groups, as in Hugging Face's transformers; None
            for the rule above.

    Raises:
        ConfigError: listing every option that cannot be.
    """

    num_experts: int = 16
    loss_coef: float = 1e-2
    group_size: int = 1024
    capacity_factor_train: float = 1.25
    capacity_factor_eval: float = 2.0
    use_second_place_loss: bool = False
    second_policy_train: str = "random"
    second_policy_eval: str = "random"
    second_threshold_train: float = 0.2
    second_threshold_eval: float = 0.2
    moe_gating: str = "top_2"
    min_expert_capacity: int = 4
    switch_policy_train: str = "input_jitter"
    switch_policy_eval: str = "input_jitter"
    switch_dropout: float = 0.1
    switch_temperature: float = 1.0
    switch_jitter: float = 1e-2
    ntlb_top_k: int = 4
    z_loss: float | None = None
    word_embed_mode: str | None = None
    use_second_place_expert_prob: float | None = None
    use_second_place_expert_prob_temp: float | None = None
    top_n_num_experts_per_token: int = 3
    capacity_rounding: str = "down"
    balance_over: str = "positions"
    groups_follow_mesh: bool = False
    expert_capacity: int | None = None

    capacity_factors = ("capacity_factor_train", "capacity_factor_eval")

    def __post_init__(self) -> None:
        self.moe_gating = _HISTORICAL.get(self.moe_gating, self.moe_gating)
        check_mixture(self)

    @property
    def reads_embeddings(self) -> bool:
        """Whether the router sees the embeddings that the stack begins with."""
        return self.word_embed_mode is not None

    @property
    def owner(self) -> str:
        """What messages call it."""
        return type(self).__name__

    def mix(self, context: Context, x: Tensor, experts: Experts) -> list[Tensor]:
        """Routes tokens, has the experts compute, and brings back what they made.

        Args:
            context: mode, padding; losses and reports are added to it.
            x: [batch, length, d_model].
            experts: what the experts do.

        Returns:
            [batch, length, ...] for each result of `experts`.

        Raises:
            ConfigError: in an ensemble, whose members would have to route for themselves.
            LayoutError: if the groups do not divide over the mesh, in training.
        """
        groups, routes = self.route(context, x)
        dispatch = Dispatch(routes)
        outputs = experts(context, dispatch.to_experts(groups.split(x)))
        return [groups.join(dispatch.from_experts(y)) for y in outputs]

    def route(self, context: Context, x: Tensor) -> tuple[Groups, Routes]:
        """The groups that tokens fall into, and where each goes.

        Args:
            context: mode, padding; losses and reports are added to it.
            x: [batch, length, d_model].

        Raises:
            ConfigError: in an ensemble, whose members would have to route for themselves.
            LayoutError: if the groups do not divide over the mesh, in training.
        """
        if scopes.stacked_dims():
            raise ConfigError(
                f"{self.owner} is a mixture of experts, which an ensemble cannot have: "
                "bind Unitransformer.ensemble to None, or another layer."
            )
        groups = Groups.of(
            context.mesh,
            x.shape - x.shape.dims[-1],
            self.group_size if self.expert_capacity is None else context.length_dim.size,
            self.groups_follow_mesh,
            whole=not context.is_training,
            owner=self.owner,
        )
        gates = self._gates(context, groups, x)
        routes = ROUTINGS[self.moe_gating](gates, self._options(context.is_training))
        if not context.incremental:
            self._account(context, gates, routes)
        return groups, routes

    def capacity(self, group: int, training: bool) -> int:
        """The number of slots of an expert in a group.

        Args:
            group: the number of tokens in it.
            training: which capacity factor counts.
        """
        if self.expert_capacity is not None:
            return min(group, self.expert_capacity)
        factor = self.capacity_factor_train if training else self.capacity_factor_eval
        return self._slots(group, self.num_experts, factor)

    def _slots(self, group: int, experts: int, factor: float) -> int:
        slots = group * factor / experts
        # Rounded up less a rounding error: 10 tokens x 1.1 / 11 experts are 1 slot.
        rounded = math.ceil(slots - 1e-9) if self.capacity_rounding == "up" else int(slots)
        return max(1, self.min_expert_capacity, min(group, rounded))

    def _gates(self, context: Context, groups: Groups, x: Tensor) -> Gates:
        seen = mtf.to_float(groups.split(x))
        if self.reads_embeddings:
            seen = self._beside_embeddings(context, groups, seen)
        seen = self._perturbed(context, seen)
        logits = dense(
            seen,
            [Dimension("expert_unsplit", self.num_experts)],
            use_bias=False,
            variable_dtype=context.variable_dtype._replace(activation=tf.float32),
            name=f"{self.moe_gating}_gating",
        )
        real = context.nonpadding
        return Gates(
            logits,
            None if real is None else mtf.to_float(groups.split(real)),
            self.capacity(groups.dims[1].size, context.is_training),
            counts_padding=self.balance_over == "positions",
        )

    def _beside_embeddings(self, context: Context, groups: Groups, x: Tensor) -> Tensor:
        """[..., group, d_model] of tokens to what the router sees, the embeddings taken in."""
        if context.embeddings is None:
            raise ConfigError(
                f"{self.owner}.word_embed_mode is {self.word_embed_mode!r}, and there are no "
                "embeddings here: use the layer in a stack that reads ids, or bind it to None."
            )
        embedded = mtf.to_float(groups.split(context.embeddings))
        if self.word_embed_mode.endswith("_stop_grad"):
            embedded = mtf.stop_gradient(embedded)
        match self.word_embed_mode.removesuffix("_stop_grad"):
            case "concat":
                return mtf.concat([x, embedded], context.d_model.name)
            case "add":
                return x + embedded
        return embedded

    def _perturbed(self, context: Context, x: Tensor) -> Tensor:
        """What the router sees: in training with noise, if the policy has it."""
        if not context.is_training or not self.moe_gating.startswith(_TAKE_POLICIES):
            return x
        if self.switch_policy_train == "input_dropout":
            return mtf.dropout(x, True, rate=self.switch_dropout)
        if self.switch_policy_train == "input_jitter":
            return multiplicative_jitter(x, self.switch_jitter)
        return x

    def _options(self, training: bool) -> RoutingOptions:
        by_gating = {"top_n": self.top_n_num_experts_per_token, "ntlb": self.ntlb_top_k}
        return RoutingOptions(
            choices=by_gating.get(self.moe_gating, 1),
            policy=self.switch_policy_train if training else self.switch_policy_eval,
            temperature=self.switch_temperature,
            second_policy=self.second_policy_train if training else self.second_policy_eval,
            second_threshold=(
                self.second_threshold_train if training else self.second_threshold_eval
            ),
            second_place_loss=self.use_second_place_loss,
            second_place=self.use_second_place_expert_prob if training else None,
            second_place_temperature=self.use_second_place_expert_prob_temp,
        )

    def _account(self, context: Context, gates: Gates, routes: Routes) -> None:
        """Adds the losses of the router, and reports what was dropped."""
        context.add_loss("balance_loss", routes.balance * self.loss_coef)
        if self.z_loss:
            context.add_loss("z_loss", z_loss(gates) * self.z_loss)
        choices = routes.slots.shape.get_dim_by_name("choices")
        best = mtf.reduce_max(routes.slots, reduced_dim=choices)
        kept = mtf.reduce_sum(mtf.to_float(mtf.greater_equal(best, 0)))
        tokens = mtf.maximum(mtf.reduce_sum(gates.group_tokens), 1.0)
        context.report("dropped", 1.0 - kept / tokens)
