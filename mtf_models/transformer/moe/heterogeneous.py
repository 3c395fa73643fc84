"""A mixture of feed-forward experts of different widths and depths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.activation import Activation
from mtf_models.layers.normalization import rms_norm
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.moe.experts import expert_hidden, expert_output
from mtf_models.transformer.moe.mixture import Mixture

_KEYS = {"percent_number", "layers", "width"}


@configurable(module="mesh_tensorflow.transformer.heterogeneous_moe")
@dataclass
class HeterogeneousMoE1D(Mixture, TransformerLayer):
    """A mixture whose experts are stacks of feed-forward layers, some narrower, some shallower.

    All have the variables of the largest, `expert_layer_<i>/wi` and `/wo`; what is beyond the width
    or depth of an expert is masked. Layers after the first read the normed sum of the input and
    of what was made so far, and add to it.

    Args:
        hidden_size: the hidden width of the widest experts.
        dropout_rate: the part of the hidden units that is dropped.
        activation: a name, or several for gated experts.
        output_dim: the width of the output; by default that of the input, which more than one
            layer needs.
        moe_num_layers: how many layers the deepest experts have.
        heterogeneous_mask_info: kinds of experts, in order: for each "percent_number", its part of
            the experts, which come to 1 or 100 together, "layers" and "width". None: all are alike.

    Raises:
        ConfigError: for options that cannot be.
    """

    hidden_size: int = 4096
    dropout_rate: float = 0.0
    activation: Activation | Sequence[Activation] = "relu"
    output_dim: int | None = None
    moe_num_layers: int = 1
    heterogeneous_mask_info: Sequence[Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(
            "HeterogeneousMoE1D", hidden_size=self.hidden_size, moe_num_layers=self.moe_num_layers
        )
        if self.output_dim and self.moe_num_layers > 1:
            raise ConfigError(
                "HeterogeneousMoE1D has an output_dim and more than one layer, whose outputs are "
                "added to the input; leave output_dim None."
            )
        self.depths, self.widths = self._sizes()

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        return self.mix(context, x, self.experts)[0]

    def experts(self, context: Context, x: Tensor) -> list[Tensor]:
        """What the experts make of the tokens in their slots, [experts, ..., d_model]."""
        width = Dimension(context.d_model.name, self.output_dim or context.d_model.size)
        total = None
        for number in range(self.moe_num_layers):
            with mtf.variable_scope(f"expert_layer_{number}"):
                seen = x
                if total is not None:
                    seen = rms_norm(x + total, context.d_model, context.variable_dtype)
                made = self._layer(context, seen, width, number)
            total = made if total is None else total + made
        return [total]

    def _layer(self, context: Context, x: Tensor, width: Dimension, number: int) -> Tensor:
        h = expert_hidden(context, x, self.hidden_size, self.activation, self.dropout_rate)
        if min(self.widths) < self.hidden_size or min(self.depths) <= number:
            inside = np.greater.outer(self.widths, np.arange(self.hidden_size))
            there = inside & np.expand_dims(np.array(self.depths) > number, 1)
            dims = [x.shape.get_dim_by_name("experts"), h.shape.dims[-1]]
            mask = mtf.import_tf_tensor(x.mesh, tf.constant(there, h.dtype), Shape(dims))
            h = mtf.multiply(h, mask, output_shape=h.shape)
        return expert_output(context, h, width, "wo")

    def _sizes(self) -> tuple[list[int], list[int]]:
        """Layers and width of each expert."""
        kinds = self.heterogeneous_mask_info
        if kinds is None:
            return [self.moe_num_layers] * self.num_experts, [self.hidden_size] * self.num_experts
        if any(set(kind) != _KEYS for kind in kinds):
            raise ConfigError(
                f"HeterogeneousMoE1D.heterogeneous_mask_info is {list(kinds)}; each kind has "
                f"{', '.join(sorted(_KEYS))}."
            )
        whole = 100 if sum(kind["percent_number"] for kind in kinds) > 1.5 else 1
        exact = [self.num_experts * kind["percent_number"] / whole for kind in kinds]
        numbers = [round(n) for n in exact]
        uneven = any(abs(n - m) > 1e-6 for n, m in zip(exact, numbers, strict=True))
        if uneven or sum(numbers) != self.num_experts:
            raise ConfigError(
                f"HeterogeneousMoE1D has kinds of {', '.join(f'{n:g}' for n in exact)} experts of "
                f"{self.num_experts}; their percent_number must make whole numbers of them all."
            )
        too_large = [
            kind
            for kind in kinds
            if not (
                1 <= kind["layers"] <= self.moe_num_layers
                and 1 <= kind["width"] <= self.hidden_size
            )
        ]
        if too_large:
            raise ConfigError(
                f"HeterogeneousMoE1D has the kinds {too_large}; they may have 1 to "
                f"{self.moe_num_layers} layers (moe_num_layers) of a width from 1 to "
                f"{self.hidden_size} (hidden_size)."
            )
        spread = [[kind] * n for kind, n in zip(kinds, numbers, strict=True)]
        each = [kind for kinds in spread for kind in kinds]
        return [kind["layers"] for kind in each], [kind["width"] for kind in each]
