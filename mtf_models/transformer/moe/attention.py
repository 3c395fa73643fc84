"""Attention whose queries, keys and values come from experts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.activation import Activation
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.attention import (
    EncDecAttention,
    SelfAttention,
    enc_dec_attention_bias,
)
from mtf_models.transformer.attention_faults import (
    check_compares,
    check_types,
    check_without,
    require_encoder,
)
from mtf_models.transformer.context import Context
from mtf_models.transformer.moe.experts import expert_hidden, expert_output
from mtf_models.transformer.moe.mixture import Mixture
from mtf_models.transformer.projections import AttentionProjections
from mtf_models.transformer.relative_attention import LEARNED

_MODULE = "mesh_tensorflow.transformer.transformer_layers"
_COMPUTATIONS = ("qkv", "q", "kv")


@dataclass
class ProjectionExperts(Mixture):
    """Experts that project tokens to the heads of attention.

    Args:
        layer_name: whose they are.
        hidden_size: the hidden width of an expert.
        activation: a name, or several for gated experts.
    """

    layer_name: str = ""
    hidden_size: int = 3072
    activation: Activation | Sequence[Activation] = "relu"

    @property
    def owner(self) -> str:
        """See `Mixture.owner`."""
        return self.layer_name

    def project(
        self, context: Context, x: Tensor, width: Dimension, names: Sequence[str]
    ) -> list[Tensor]:
        """[batch, length, width] of each of the output kernels that are named.

        Args:
            context: of the tokens.
            x: [batch, length, d_model].
            width: of each result.
            names: variable scopes of the output kernels, which share the hidden units.
        """

        def experts(context: Context, x: Tensor) -> list[Tensor]:
            h = expert_hidden(context, x, self.hidden_size, self.activation, dropout_rate=0.0)
            return [expert_output(context, h, width, name) for name in names]

        return self.mix(context, x, experts)


@dataclass(frozen=True)
class ExpertsProjections(AttentionProjections):
    """Projections of which experts compute some; keys are values too.

    Attributes:
        context: of the call.
        experts: the mixture.
        by_experts: what they compute: "qkv", "q" or "kv".
        together: whether queries and keys are of the same tokens.
    """

    context: Context
    experts: ProjectionExperts
    by_experts: str
    together: bool
    _made: dict[str, Tensor] = field(default_factory=dict)

    def query(self, x: Tensor) -> Tensor:
        """See `AttentionProjections.query`; what experts make is scaled here."""
        if "q" not in self.by_experts:
            return super().query(x)
        made = self._projected(self.context, x, "q")
        return self._heads(made, self.query_heads_dims) * self.key_dim.size**-0.5

    def key(self, x: Tensor) -> Tensor:
        """See `AttentionProjections.key`."""
        if "kv" not in self.by_experts:
            return super().key(x)
        context = self.context if self.together else _of_memory(self.context)
        return self._heads(self._projected(context, x, "k"), self.memory_heads_dims)

    def _projected(self, context: Context, x: Tensor, name: str) -> Tensor:
        width = mtf.combined_dimension([*self.query_heads_dims, self.key_dim])
        if self.by_experts != "qkv":
            return self.experts.project(context, x, width, ["wo"])[0]
        if not self.together:
            return self.experts.project(context, x, width, [f"{name}_wo"])[0]
        if not self._made:
            q, k = self.experts.project(context, x, width, ["q_wo", "k_wo"])
            self._made.update(q=q, k=k)
        return self._made[name]

    def _heads(self, x: Tensor, heads: list[Dimension]) -> Tensor:
        return mtf.reshape(x, x.shape - x.shape.dims[-1] + [*heads, self.key_dim])


@configurable(module=_MODULE)
class ExpertsSelfAttention(SelfAttention):
    """Self-attention whose queries and keys experts compute (Fedus et al. 2021, appendix A).

    In the original the keys of "qkv" keep the dimension of the queries, so that a position attends
    to itself alone: the layer comes to a mixture of experts followed by `o`, and its checkpoints
    depend on that. `sees_sequence` makes it attention.

    Args:
        num_experts: this and the following as for `Mixture`.
        loss_coef: weight of the balance loss.
        group_size: tokens in a group.
        capacity_factor_train: slots over tokens, in training.
        capacity_factor_eval: slots over tokens, otherwise.
        moe_gating: the routing.
        min_expert_capacity: the least number of slots.
        switch_policy_train: how the router is perturbed.
        switch_policy_eval: the same, otherwise.
        switch_dropout: of "input_dropout".
        switch_temperature: of "sample".
        switch_jitter: of "input_jitter".
        ntlb_top_k: experts that "ntlb" tries.
        hidden_size: the hidden width of an expert.
        activation: a name, or several for gated experts.
        z_loss: weight of the router's z-loss.
        expert_computation: what experts compute: "qkv", "q" or "kv".
        sees_sequence: whether with "qkv" a position attends to others. If not, no attention
            weights are dropped either.
        **kwargs: as for `SelfAttention`, whose gin bindings apply here too; `shared_kv` must be
            True.

    Raises:
        ConfigError: for an option that cannot be.
    """

    def __init__(
        self,
        num_experts: int = 16,
        loss_coef: float = 1e-2,
        group_size: int = 1024,
        capacity_factor_train: float = 1.25,
        capacity_factor_eval: float = 2.0,
        moe_gating: str = "switch",
        min_expert_capacity: int = 4,
        switch_policy_train: str = "input_jitter",
        switch_policy_eval: str = "input_jitter",
        switch_dropout: float = 0.0,
        switch_temperature: float = 1.0,
        switch_jitter: float = 1e-2,
        ntlb_top_k: int = 4,
        hidden_size: int = 3072,
        activation: Activation | Sequence[Activation] = "relu",
        z_loss: float | None = None,
        expert_computation: str = "qkv",
        sees_sequence: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.expert_computation = expert_computation
        self.sees_itself_only = expert_computation == "qkv" and not sees_sequence
        if self.sees_itself_only:
            check_without(self, "attention_func", "z_loss_coeff")
            check_compares(self)
        check_without(self, "use_bias")
        self.experts = ProjectionExperts(
            layer_name=type(self).__name__,
            num_experts=num_experts,
            loss_coef=loss_coef,
            group_size=group_size,
            capacity_factor_train=capacity_factor_train,
            capacity_factor_eval=capacity_factor_eval,
            moe_gating=moe_gating,
            min_expert_capacity=min_expert_capacity,
            switch_policy_train=switch_policy_train,
            switch_policy_eval=switch_policy_eval,
            switch_dropout=switch_dropout,
            switch_temperature=switch_temperature,
            switch_jitter=switch_jitter,
            ntlb_top_k=ntlb_top_k,
            hidden_size=hidden_size,
            activation=activation,
            z_loss=z_loss,
        )
        _check(self)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        if not self.sees_itself_only:
            return super().call(context, x)
        maps = self.projections(context)
        # Of one thing the weight is 1 whatever these say; their variables are in checkpoints.
        self._bias(context, maps, maps.query(x))
        return self._output(context, maps, maps.key(x))

    def projections(self, context: Context) -> AttentionProjections:
        """See `SelfAttention.projections`."""
        return ExpertsProjections(
            **self._projection_options(context),
            context=context,
            experts=self.experts,
            by_experts=self.expert_computation,
            together=self.sees_itself_only or not self._attends_to_encoder,
        )

    _attends_to_encoder = False


@configurable(module=_MODULE)
class ExpertsEncDecAttention(ExpertsSelfAttention):
    """Attention to the encoder's output whose queries and keys experts compute.

    Tokens of the decoder and of the encoder are routed apart, by the same router.

    Args:
        relative_attention_type: as for `EncDecAttention`.
        **kwargs: as for `ExpertsSelfAttention`, whose gin bindings apply here too.

    Raises:
        ConfigError: for an option that cannot be.
    """

    _attends_to_encoder = True

    def __init__(self, relative_attention_type: str | None = None, **kwargs: Any) -> None:
        super().__init__(relative_attention_type=None, **kwargs)
        check_types(self, relative_attention_type, (None, *LEARNED))
        self.relative_attention_type = relative_attention_type

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`; the context has an encoder output of width d_model."""
        if not self.sees_itself_only:
            return EncDecAttention.call(self, context, x)
        require_encoder(self, context)
        maps = self.projections(context)
        maps.query(x)
        enc_dec_attention_bias(self, context, maps.query_heads_dims)
        return self._output(context, maps, maps.key(x))


def _of_memory(context: Context) -> Context:
    """The context of the encoder's output; losses and reports go to the same places."""
    return dataclasses.replace(
        context,
        mode="train" if context.is_training else "eval",
        sequence_id=context.encoder_sequence_id,
        _once={},
    )


def _check(layer: ExpertsSelfAttention) -> None:
    require_positive(type(layer).__name__, hidden_size=layer.experts.hidden_size)
    faults = []
    if layer.expert_computation not in _COMPUTATIONS:
        known = ", ".join(f'"{name}"' for name in _COMPUTATIONS)
        faults.append(f"expert_computation is {layer.expert_computation!r}; it can be {known}")
    if not layer.shared_kv:
        faults.append("shared_kv is False; experts compute keys that are values too: set it True")
    if not layer.combine_dims:
        faults.append("combine_dims is False; experts have heads and d_kv in one: leave it True")
    if layer.num_memory_heads:
        faults.append("num_memory_heads is set; experts have a key for each query: leave it 0")
    if faults:
        raise ConfigError(f"{type(layer).__name__}: {'; '.join(faults)}.")
