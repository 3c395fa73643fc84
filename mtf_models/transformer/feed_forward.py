"""The feed-forward layer."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import require_positive
from mtf_models.layers.activation import Activation
from mtf_models.layers.dense import dense, dense_product
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer


@configurable(module="mesh_tensorflow.transformer.transformer_layers")
class DenseReluDense(TransformerLayer):
    """activation(x Wi) Wo (Vaswani et al. 2017, section 3.3), gated with two activations.

    Args:
        hidden_size: the size of d_ff.
        dropout_rate: the part of the hidden units that is dropped, the same at every position.
        activation: a name, or several for a gated linear unit, such as ["gelu", "linear"].
        use_bias: whether the two maps have biases.
    """

    def __init__(
        self,
        hidden_size: int = 4096,
        dropout_rate: float = 0.0,
        activation: Activation | Sequence[Activation] = "relu",
        use_bias: bool = False,
    ) -> None:
        require_positive(type(self).__name__, hidden_size=hidden_size)
        self.hidden_size = hidden_size
        self.dropout_rate = dropout_rate
        self.activation = activation
        self.use_bias = use_bias

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        d_ff = Dimension("d_ff", self.hidden_size)
        dtype = context.variable_dtype
        h = dense_product(
            x, [d_ff], self.activation, use_bias=self.use_bias, variable_dtype=dtype, name="wi"
        )
        h = mtf.dropout(
            h,
            context.is_training,
            rate=self.dropout_rate,
            noise_shape=h.shape - context.length_dim,
        )
        return dense(h, [context.d_model], use_bias=self.use_bias, variable_dtype=dtype, name="wo")
