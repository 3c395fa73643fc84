"""The mixture of feed-forward experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.activation import Activation
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.moe.experts import expert_hidden, expert_output
from mtf_models.transformer.moe.mixture import Mixture


@configurable(module="mesh_tensorflow.transformer.moe")
@dataclass
class MoE1D(Mixture, TransformerLayer):
    """A mixture whose experts are feed-forward layers, activation(x Wi) Wo.

    Args:
        hidden_size: the hidden width of an expert.
        dropout_rate: the part of the hidden units that is dropped.
        activation: a name, or several for gated experts, such as ["gelu", "linear"].
        output_dim: the width of the output; by default that of the input.
        use_experts_attention: False; attention of experts is `ExpertsSelfAttention`.

    Raises:
        ConfigError: for options that cannot be.
    """

    hidden_size: int = 4096
    dropout_rate: float = 0.0
    activation: Activation | Sequence[Activation] = "relu"
    output_dim: int | None = None
    use_experts_attention: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("MoE1D", hidden_size=self.hidden_size)
        if self.use_experts_attention:
            raise ConfigError(
                "MoE1D.use_experts_attention is True; a layer of its own does that: "
                "@ExpertsSelfAttention."
            )

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        return self.mix(context, x, self.experts)[0]

    def experts(self, context: Context, x: Tensor) -> list[Tensor]:
        """What the experts make of the tokens in their slots, [experts, ..., d_model]."""
        h = expert_hidden(context, x, self.hidden_size, self.activation, self.dropout_rate)
        width = Dimension(context.d_model.name, self.output_dim or context.d_model.size)
        return [expert_output(context, h, width, "wo")]
