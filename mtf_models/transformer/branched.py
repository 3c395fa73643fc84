"""Attention whose heads go through the feed-forward layer one by one."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import Initializer
from mtf_models.transformer.attention import EncDecAttention, SelfAttention
from mtf_models.transformer.attention_faults import check_types
from mtf_models.transformer.context import Context
from mtf_models.transformer.feed_forward import DenseReluDense
from mtf_models.transformer.projections import AttentionProjections
from mtf_models.transformer.relative_attention import LEARNED

_MODULE = "mesh_tensorflow.transformer.transformer_layers"


@configurable(module=_MODULE)
class BranchedSelfAttention(SelfAttention):
    """Σ_h alpha_h FFN(kappa_h head_h) (Ahmed et al. 2017, equations 5 to 7).

    The heads share one `DenseReluDense`. As in the original alpha and kappa are learned freely,
    without the paper's constraint that each adds up to 1.

    Args:
        **kwargs: as for `SelfAttention`, whose gin bindings apply here too. Heads and d_kv are
            never combined, and there is a key and value head for each query head.

    Raises:
        ConfigError: if there are other numbers of key heads.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "combine_dims": False, "keep_query_heads_dims": True})
        if self.num_memory_heads:
            raise ConfigError(
                f"{type(self).__name__}.num_memory_heads is {self.num_memory_heads}; branches have "
                "keys of their own: set it to 0."
            )
        self.feed_forward = DenseReluDense()

    def _output(self, context: Context, maps: AttentionProjections, y: Tensor) -> Tensor:
        heads = super()._output(context, maps, y)
        # Under a name of their own, since d_ff may be split as heads are.
        branches = Dimension("branches", self.num_heads)
        heads = mtf.reshape(
            heads,
            heads.shape - maps.query_heads_dims - context.d_model + [branches, context.d_model],
        )
        kappa = self._weights(context, "kappa", branches)
        alpha = self._weights(context, "alpha", branches)
        h = mtf.multiply(heads, kappa, output_shape=heads.shape)
        h = self.feed_forward.call(context, h)
        return mtf.einsum([h, alpha], h.shape - branches)

    def _weights(self, context: Context, name: str, branches: Dimension) -> Tensor:
        return mtf.get_variable(
            context.mesh, name, Shape([branches]), context.variable_dtype, _between_0_and_1()
        )


@configurable(module=_MODULE)
class BranchedEncDecAttention(BranchedSelfAttention):
    """Branched attention of a decoder to the encoder's output.

    Args:
        relative_attention_type: as for `EncDecAttention`.
        **kwargs: as for `BranchedSelfAttention`, whose gin bindings apply here too.
    """

    def __init__(self, relative_attention_type: str | None = None, **kwargs: Any) -> None:
        super().__init__(relative_attention_type=relative_attention_type, **kwargs)
        check_types(self, relative_attention_type, (None, *LEARNED))

    call = EncDecAttention.call


def _between_0_and_1() -> Initializer:
    return lambda sizes, seed: tf.random.stateless_uniform(sizes, seed)
