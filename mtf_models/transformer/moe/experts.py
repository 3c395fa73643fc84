"""What the experts of a mixture compute, all at once: each has its own weights."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.layers.activation import Activation
from mtf_models.layers.dense import dense, dense_product
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.context import Context


def expert_hidden(
    context: Context,
    x: Tensor,
    hidden_size: int,
    activation: Activation | Sequence[Activation],
    dropout_rate: float,
) -> Tensor:
    """activation(x Wi) for each expert.

    Args:
        context: mode and dtypes.
        x: [experts, ..., d_model].
        hidden_size: of each expert.
        activation: a name, or several for gated experts.
        dropout_rate: the part of the hidden units that is dropped.

    Returns:
        [experts, ..., expert_hidden].
    """
    h = dense_product(
        x,
        [Dimension("expert_hidden", hidden_size)],
        activation,
        expert_dims=[x.shape.get_dim_by_name("experts")],
        variable_dtype=context.variable_dtype,
        name="wi",
    )
    return mtf.dropout(h, context.is_training, rate=dropout_rate)


def expert_output(context: Context, h: Tensor, width: Dimension, name: str) -> Tensor:
    """The product of h and Wo for each expert.

    Args:
        context: dtypes.
        h: [experts, ..., expert_hidden].
        width: of the result.
        name: the variable scope.

    Returns:
        [experts, ..., width].
    """
    return dense(
        h,
        [width],
        expert_dims=[h.shape.get_dim_by_name("experts")],
        use_bias=False,
        variable_dtype=context.variable_dtype,
        name=name,
    )
