"""Several hypotheses of a row attend to one memory, whichever layer does so."""

import numpy as np
import pytest

SPANS = (
    "EncDecAttention.relative_attention_type = 'bias'",
    "transformer_layers.enc_dec_attention_bias.relative_position_fn = @relative_position_spans",
    "relative_position_spans.num_sentinels = 20",
)
MODULES = (
    "TransparentEncDecAttention.layers_per_encoder_module = 2",
    "TransparentEncDecAttention.layers_per_decoder_module = 3",
    "TransparentEncDecAttention.encoder_num_modules = 2",
    "TransparentEncDecAttention.decoder_num_modules = 2",
)
EXPERTS = (
    "ExpertsEncDecAttention.shared_kv = True",
    "ExpertsEncDecAttention.min_expert_capacity = 64",
)
KINDS = {
    "plain": ("EncDecAttention",),
    "bias by spans": ("EncDecAttention", *SPANS),
    "transparent": ("TransparentEncDecAttention", *MODULES),
    "Fixup": ("EncDecAttentionFixup", "SelfAttentionFixup.num_blocks = 2"),
    "talking heads": ("TalkingHeadsEncDecAttention",),
    "general bilinear": ("GeneralBilinearEncDecAttention",),
    "experts": ("ExpertsEncDecAttention", *EXPERTS),
}
INPUTS = np.array([[5, 7, 9, 1, 0, 0], [11, 92, 1, 0, 0, 0], [3, 94, 5, 86, 7, 1]], np.int32)
DRAWN = {"temperature": 1.0, "num_return": 3}
WAYS = {"beams": {"beam_size": 3, "num_return": 3, "stop_early": False}, "drawn": DRAWN}


@pytest.mark.parametrize("kind", KINDS)
def test_each_has_the_score_of_its_ids(build, kind):
    layer, *params = KINDS[kind]
    layers = f"decoder/make_layer_stack.layers = [@SelfAttention, @{layer}, @DenseReluDense]"
    model = build("t5_tiny", layers, *params, seed=2)
    rng = np.random.default_rng(0)
    for variable in model.variables.values():  # Zero at first, some of them.
        variable.assign(
            variable.numpy() + 0.1 * rng.standard_normal(variable.shape.to_integer_list)
        )
    for way, options in WAYS.items():
        found = model.decode({"inputs": INPUTS}, max_decode_length=6, **options)
        ids = found.ids.numpy().reshape([9, 6])
        assert len({(place // 3, *row) for place, row in enumerate(ids.tolist())}) > 6, way
        targets = {"inputs": np.repeat(INPUTS, 3, axis=0), "targets": ids}
        whole = (ids > 0).all(axis=1)  # A model may choose id 0, which whole sequences end with.
        assert whole.sum() > 4
        right = model.score(targets).numpy()[whole]
        log_probabilities = found.log_probabilities.numpy().ravel()
        np.testing.assert_allclose(log_probabilities[whole], right, rtol=2e-5)
