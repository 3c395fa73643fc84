"""Two dense layers with a nonlinearity between them."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.layers.dense import dense
from mtf_models.mesh import Dimension, Tensor, VariableDType


def dense_relu_dense(
    x: Tensor,
    hidden_channels: Dimension,
    is_training: bool = False,
    dropout: float = 0.0,
    dropout_broadcast_dims: Sequence[Dimension] | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "dense_relu_dense",
) -> Tensor:
    """relu(x wi) wo, with dropout between, in the variables `<name>/wi/kernel` and `wo/kernel`.

    Args:
        x: [..., io].
        hidden_channels: the dimension between.
        is_training: whether to drop.
        dropout: the part that is dropped.
        dropout_broadcast_dims: dimensions along which the same elements are dropped.
        variable_dtype: dtypes of the variables; by default float32, activations as `x`.
        name: the variable scope.
    """
    io = x.shape.dims[-1]
    options = {"use_bias": False, "variable_dtype": variable_dtype}
    with mtf.variable_scope(name):
        h = dense(x, [hidden_channels], activation="relu", name="wi", **options)
        noise = h.shape - list(dropout_broadcast_dims or ())
        h = mtf.dropout(h, is_training, rate=dropout, noise_shape=noise)
        return dense(h, [io], name="wo", **options)
