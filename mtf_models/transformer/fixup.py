"""Layers that train without normalisation, by their initial values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.activation import Activation
from mtf_models.layers.dense import dense, dense_product
from mtf_models.layers.initialization import VarianceScalingInitializer
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import Initializer, zeros
from mtf_models.transformer.attention import EncDecAttention, SelfAttention
from mtf_models.transformer.attention_faults import check_types
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.projections import AttentionProjections
from mtf_models.transformer.relative_attention import LEARNED

_MODULE = "mesh_tensorflow.transformer.fixup_layers"
_INITS = {"glorot": (1.0, "fan_avg"), "he": (2.0, "fan_in")}


@configurable(module=_MODULE)
class DenseReluDenseFixup(TransformerLayer):
    """The feed-forward layer with initial values of Fixup (Zhang et al. 2019, section 3).

    Args:
        hidden_size: the size of d_ff.
        dropout_rate: the part of the hidden units that is dropped, the same at every position.
        activation: as for `DenseReluDense`.
        use_bias: whether the two maps have biases.
        default_init: of wi, "he" (variance 2 / fan_in) or "glorot" (2 / (fan_in + fan_out)), scaled
            by 1 / num_blocks; wo is 0 at first.
        init_distribution: "uniform" or "normal".
        num_blocks: of the stack.

    Raises:
        ConfigError: for another default_init.
    """

    def __init__(
        self,
        hidden_size: int = 4096,
        dropout_rate: float = 0.0,
        activation: Activation | Sequence[Activation] = "relu",
        use_bias: bool = False,
        default_init: str = "he",
        init_distribution: str = "uniform",
        num_blocks: int = REQUIRED,
    ) -> None:
        require_positive(type(self).__name__, hidden_size=hidden_size, num_blocks=num_blocks)
        self.hidden_size = hidden_size
        self.dropout_rate = dropout_rate
        self.activation = activation
        self.use_bias = use_bias
        self.init = _initializer(self, default_init, init_distribution, 1.0 / num_blocks)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        d_ff = Dimension("d_ff", self.hidden_size)
        dtype = context.variable_dtype
        one = Dimension("shift", 1)
        shift = mtf.get_variable(context.mesh, "shift", Shape([one]), dtype, zeros())
        h = dense_product(
            x,
            [d_ff],
            self.activation,
            use_bias=self.use_bias,
            variable_dtype=dtype,
            kernel_initializer=self.init([context.d_model], [d_ff]),
            name="wi",
        )
        h = mtf.dropout(
            h,
            context.is_training,
            rate=self.dropout_rate,
            noise_shape=h.shape - context.length_dim,
        )
        return dense(
            h + mtf.reshape(shift, shift.shape - one),
            [context.d_model],
            use_bias=self.use_bias,
            variable_dtype=dtype,
            kernel_initializer=zeros(),
            name="wo",
        )


@dataclass(frozen=True)
class FixupProjections(AttentionProjections):
    """The maps of attention in variables of Fixup's names and initial values.

    Attributes:
        init: of all but the output, which is 0 at first.
    """

    init: VarianceScalingInitializer | None = None

    def _initializer(self, name: str, stddev: float, inner: list[Dimension]) -> Initializer:
        return zeros() if name == "o" else self.init([self.d_model], inner)

    def _name(self, name: str) -> str:
        return f"{name}_fixup"


@configurable(module=_MODULE)
class SelfAttentionFixup(SelfAttention):
    """Self-attention with initial values of Fixup (Zhang et al. 2019, section 3).

    Args:
        num_blocks: of the stack, whose number scales the initial values.
        default_init: "glorot" or "he", as for `DenseReluDenseFixup`.
        init_distribution: "uniform" or "normal".
        **kwargs: as for `SelfAttention`, whose gin bindings apply here too. The scale of the logits
            is not folded into initial values here, whatever fold_scaling_into_initializer says.

    Raises:
        ConfigError: for another default_init.
    """

    def __init__(
        self,
        num_blocks: int = REQUIRED,
        default_init: str = "glorot",
        init_distribution: str = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive(type(self).__name__, num_blocks=num_blocks)
        self.init = _initializer(self, default_init, init_distribution, 1.0 / num_blocks)

    def projections(self, context: Context) -> AttentionProjections:
        """The maps from d_model to heads and back."""
        return FixupProjections(**self._projection_options(context), init=self.init)

    def _projection_options(self, context: Context) -> dict[str, Any]:
        return {**super()._projection_options(context), "fold_scaling": False}


@configurable(module=_MODULE)
class EncDecAttentionFixup(SelfAttentionFixup):
    """Attention of a decoder to the encoder's output, with initial values of Fixup.

    Args:
        relative_attention_type: as for `EncDecAttention`.
        **kwargs: as for `SelfAttentionFixup`, whose gin bindings apply here too.
    """

    def __init__(self, relative_attention_type: str | None = None, **kwargs: Any) -> None:
        super().__init__(relative_attention_type=relative_attention_type, **kwargs)
        check_types(self, relative_attention_type, (None, *LEARNED))

    call = EncDecAttention.call


def _initializer(
    layer: Any, default_init: str, distribution: str, scale: float
) -> VarianceScalingInitializer:
    if default_init not in _INITS:
        raise ConfigError(
            f"{type(layer).__name__}.default_init is {default_init!r}; it can be "
            f"{' or '.join(map(repr, _INITS))}."
        )
    variance, mode = _INITS[default_init]
    return VarianceScalingInitializer(variance * scale**2, mode, distribution)
