"""A stack of reversible residual layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mtf_models.configurable import configurable
from mtf_models.mesh import Tensor
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.stack import LayerStack


@configurable(module="mesh_tensorflow.transformer.transformer")
class ReversibleLayerStack(LayerStack):
    """Two halves that take turns in being changed by the other (Gomez et al. 2017; Kitaev 2020).

    Memory is saved by computing the layers again in the backward pass; their inputs are kept, and
    not reconstructed from their outputs.

    Args:
        layers: see `LayerStack`.
        **kwargs: see `LayerStack`; `recompute_grads` is always on.
    """

    def __init__(self, layers: Sequence[TransformerLayer], **kwargs: Any) -> None:
        super().__init__(layers, **kwargs)
        self.recompute_grads = True

    def transform(self, context: Context, x: Tensor) -> Tensor:
        """See `LayerStack.transform`."""
        first = second = x
        for layer in self.layers:
            first, second = second, first + self.call_layer(layer, context, second)
        return first + second
