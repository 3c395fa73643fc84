"""Layers that treat each position by itself, and layers side by side."""

from layer_cases.case import layer
from mtf_models.transformer.feed_forward import DenseReluDense
from mtf_models.transformer.fixup import DenseReluDenseFixup
from mtf_models.transformer.memory_layers import ProductKeyValueMemory
from mtf_models.transformer.parallel import ParallelLayer

GATED = {"activation": ["gelu", "linear"], "use_bias": True}

CASES = [
    layer(DenseReluDense, hidden_size=16),
    layer(DenseReluDense, "gated", hidden_size=16, **GATED),
    layer(DenseReluDenseFixup, hidden_size=16, num_blocks=2),
    layer(ProductKeyValueMemory, key_size=8, n_keys=4, n_heads=2, knn=2),
    layer(ParallelLayer),
]
