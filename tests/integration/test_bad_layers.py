"""Layers that cannot be as a config has them, from the command line: layer, option and remedy."""

import pytest
from commands import train

STACK = "make_layer_stack.layers"
IN_ENCODER = f"encoder/transformer.{STACK}"
EXPERTS = f"--gin_param={IN_ENCODER} = [@SelfAttention, @MoE1D]"
SMALL = ("--gin_param=MoE1D.hidden_size = 16", "--gin_param=MoE1D.num_experts = 4")
FUNNEL = (
    "--gin_param=make_bitransformer.bitransformer_cls = @BitransformerFunnel",
    "--gin_param=encoder/make_layer_stack.layer_stack_cls = @FunnelTransformerLayerStack",
    "--gin_param=encoder/make_layer_stack.num_layers = 2",
    *(
        f"--gin_param=FunnelTransformerLayerStack.{name} = {value}"
        for name, value in {
            "n_blocks": 2,
            "block_param_size": [1, 1],
            "block_repeat_size": [1, 1],
            "pooling_size": 3,
        }.items()
    ),
)

REFUSED = {
    "an unknown routing": (
        (EXPERTS, *SMALL, "--gin_param=MoE1D.moe_gating = 'swich'"),
        ["MoE1D has moe_gating = 'swich'; did you mean switch"],
    ),
    "no room": (
        (
            EXPERTS,
            *SMALL,
            "--gin_param=MoE1D.capacity_factor_train = 0.0",
            "--gin_param=MoE1D.min_expert_capacity = -1",
        ),
        [
            "MoE1D has capacity_factor_train = 0.0; give a number above 0",
            "min_expert_capacity = -1; give a whole number from 0",
        ],
    ),
    "experts that do not divide": (
        (EXPERTS, *SMALL, "--mesh=batch:4", "--layout=experts:batch")
        + ("--gin_param=MoE1D.num_experts = 6",),
        ["experts of size 6 does not divide", "MoE1D/wi", "nearest sizes that fit are 4 or 8"],
    ),
    "groups that do not divide": (
        (EXPERTS, *SMALL, "--mesh=batch:4", "--layout=batch:batch,experts:batch"),
        ["MoE1D: 32 tokens make 1 groups", "Set group_size to 8, or groups_follow_mesh = True"],
    ),
    "attention to an encoder in an encoder": (
        (f"--gin_param={IN_ENCODER} = [@SelfAttention, @EncDecAttention]",),
        ["EncDecAttention attends to an encoder, and this stack has none", f"decoder/{STACK}"],
    ),
    "experts' attention to an encoder in an encoder": (
        (
            f"--gin_param={IN_ENCODER} = [@ExpertsEncDecAttention]",
            "--gin_param=ExpertsEncDecAttention.shared_kv = True",
            "--gin_param=ExpertsEncDecAttention.num_experts = 2",
        ),
        ["ExpertsEncDecAttention attends to an encoder", f"decoder/{STACK}"],
    ),
    "transparent attention to an encoder in an encoder": (
        (
            f"--gin_param={IN_ENCODER} = [@TransparentEncDecAttention]",
            *(
                f"--gin_param=TransparentEncDecAttention.{name} = 1"
                for name in (
                    "layers_per_encoder_module",
                    "layers_per_decoder_module",
                    "encoder_num_modules",
                    "decoder_num_modules",
                )
            ),
        ),
        ["TransparentEncDecAttention attends to an encoder", f"decoder/{STACK}"],
    ),
    "a layer that lacks what it must be told": (
        (f"--gin_param={IN_ENCODER} = [@TransparentEncDecAttention]",),
        ["TransparentEncDecAttention", "layers_per_encoder_module", "Bind what is missing"],
    ),
    "a layer that inherits what it must be told": (
        (f"--gin_param={IN_ENCODER} = [@DynamicConv1DLocalAttn]",),
        ["make_layer_stack, DynamicConv1DLocalAttn, ", "'output_size'", "Bind what is missing"],
    ),
    "a layer that is not in a list": (
        (f"--gin_param={IN_ENCODER} = @SelfAttention",),
        [f"{STACK} is @SelfAttention; write a list of layer classes"],
    ),
    "a layer that is made already": (
        (f"--gin_param={IN_ENCODER} = [@SelfAttention()]",),
        [f"{STACK} has the item @SelfAttention(); an item is a layer class"],
    ),
    "something else in the place of a layer": (
        (f"--gin_param={IN_ENCODER} = [@VocabEmbedding]",),
        [f"{STACK} has the item @VocabEmbedding; an item is a layer class"],
    ),
    "a length that is no multiple of what is pooled": (
        FUNNEL,
        ["FunnelTransformerLayerStack pools 3 positions", "make the sequence length a multiple"],
    ),
    "a length beyond the logits that are learned": (
        (
            f"--gin_param={IN_ENCODER} = [@Synthesizer]",
            "--gin_param=Synthesizer.table_length = 4",
        ),
        ["Sequences of 8 positions, and Synthesizer has logits for 4", "Synthesizer.table_length"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    words, fragments = REFUSED[name]
    outcome = train(tmp_path / "new", *words)
    assert outcome.status == 2, outcome.err
    assert outcome.err.startswith("mtf: error: ")
    for fragment in fragments:
        assert fragment in outcome.err, outcome.err
    for unwanted in ("Traceback", "In call to configurable", " at 0x"):
        assert unwanted not in outcome.err, outcome.err
    assert list(tmp_path.iterdir()) == []
