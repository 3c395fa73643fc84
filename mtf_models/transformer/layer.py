"""What a layer of a stack is."""

from __future__ import annotations

import abc

from mtf_models.mesh import Tensor
from mtf_models.transformer.context import Context


class TransformerLayer(abc.ABC):
    """A map from [batch, length, d_model] to the same shape.

    Hyper-parameters are given to the constructor, where gin binds them; what a call needs comes
    from the context. A layer keeps no state.
    """

    name: str = ""
    """Its scope in the stack, given when the stack is made."""

    index: int = 0
    """Its place in the stack, given when the stack is made."""

    reads_encoder_layers: bool = False
    """Whether it reads `Context.encoder_layer_outputs`."""

    reads_embeddings: bool = False
    """Whether it reads `Context.embeddings`."""

    @abc.abstractmethod
    def call(self, context: Context, x: Tensor) -> Tensor:
        """Computes the layer.

        Args:
            context: mode, lengths, masks, caches.
            x: [batch, length, d_model].

        Returns:
            [batch, length, d_model].
        """
