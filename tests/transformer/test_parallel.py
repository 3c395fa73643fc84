"""Layers side by side are given what each of them reads."""

import numpy as np
import pytest

RECOMPUTE = "LayerStack.recompute_grads = True"
SIDE_BY_SIDE = {
    "embeddings": [
        "ParallelLayer.layer_classes = [@SelfAttention, @MoE1D]",
        "MoE1D.num_experts = 2",
        "MoE1D.hidden_size = 8",
        "MoE1D.moe_gating = 'switch'",
        "MoE1D.word_embed_mode = 'add'",
        "decoder/make_layer_stack.layers = [@ParallelLayer]",
    ],
    "encoder layers": [
        "ParallelLayer.layer_classes = [@SelfAttention, @TransparentEncDecAttention]",
        "TransparentEncDecAttention.layers_per_encoder_module = 2",
        "TransparentEncDecAttention.layers_per_decoder_module = 1",
        "TransparentEncDecAttention.encoder_num_modules = 1",
        "TransparentEncDecAttention.decoder_num_modules = 1",
        "decoder/make_layer_stack.layers = [@ParallelLayer]",
    ],
}
INPUTS = np.array([[5, 7, 9, 1, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)
FEATURES = {"inputs": INPUTS, "targets": np.array([[8, 6, 1, 0], [9, 2, 4, 1]], np.int32)}


@pytest.mark.parametrize("read", SIDE_BY_SIDE)
def test_recomputation_changes_nothing(build, read):
    params = [*SIDE_BY_SIDE[read], "num_layers = 1"]
    kept = build("t5_tiny", *params, seed=2).gradients(FEATURES)
    again = build("t5_tiny", *params, RECOMPUTE, seed=2).gradients(FEATURES)
    for name, gradient in again.items():
        np.testing.assert_allclose(gradient, kept[name], rtol=1e-4, atol=1e-6, err_msg=name)
