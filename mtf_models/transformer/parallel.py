"""Layers side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.mesh import Tensor
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.context import Context
from mtf_models.transformer.feed_forward import DenseReluDense
from mtf_models.transformer.layer import TransformerLayer


@configurable(module="mesh_tensorflow.transformer.transformer_layers")
class ParallelLayer(TransformerLayer):
    """The sum of n layers of one input, divided by √n.

    Args:
        layer_classes: of the layers.
        use_scope: whether each has a variable scope of its own, `parallel_layer_<i>`.

    Raises:
        ConfigError: if there are no layers.
    """

    def __init__(
        self,
        layer_classes: Sequence[Callable[[], TransformerLayer]] = (DenseReluDense, SelfAttention),
        use_scope: bool = True,
    ) -> None:
        if not layer_classes:
            raise ConfigError("ParallelLayer.layer_classes is empty; name at least one layer.")
        self.layers = [make() for make in layer_classes]
        self.reads_encoder_layers = any(layer.reads_encoder_layers for layer in self.layers)
        self.reads_embeddings = any(layer.reads_embeddings for layer in self.layers)
        self.use_scope = use_scope

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        outputs = []
        for number, layer in enumerate(self.layers):
            name = f"parallel_layer_{number}"
            with mtf.variable_scope(name) if self.use_scope else contextlib.nullcontext():
                outputs.append(layer.call(context, x))
        return mtf.add_n(outputs) * len(outputs) ** -0.5
