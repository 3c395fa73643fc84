"""Every class of attention to a sequence itself, with the kinds of positions it knows."""

from layer_cases.case import causal, layer
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.branched import BranchedSelfAttention
from mtf_models.transformer.fixup import SelfAttentionFixup
from mtf_models.transformer.general_bilinear import GeneralBilinearSelfAttention
from mtf_models.transformer.local_attention import LocalSelfAttention
from mtf_models.transformer.synthesizer import Synthesizer
from mtf_models.transformer.talking_heads import TalkingHeadsSelfAttention
from mtf_models.transformer.transient_global import TransientGlobalSelfAttention

HEADS = {"num_heads": 4, "key_value_size": 4}
BIAS = {"relative_attention_type": "bias"}
TALKING = {
    "key_heads_dims": [("heads", 4)],
    "softmax_heads_dims": [("softmax_heads", 2)],
    "value_heads_dims": [("heads", 4)],
    "key_size": 4,
    "value_size": 4,
}

CASES = [
    layer(SelfAttention, **HEADS, **BIAS),
    layer(SelfAttention, "hybrid", **HEADS, attention_func="hybrid"),
    causal(
        SelfAttention,
        "rotary in groups",
        **HEADS,
        num_memory_heads=2,
        relative_attention_type="rotary",
    ),
    causal(
        SelfAttention, "alibi, shared", **HEADS, shared_kv=True, relative_attention_type="alibi"
    ),
    causal(
        SelfAttention,
        "contextual",
        **HEADS,
        combine_dims=False,
        relative_attention_type="contextual",
    ),
    layer(LocalSelfAttention, "both sides", radius=2, **HEADS),
    layer(
        LocalSelfAttention,
        "rotary",
        radius=2,
        look_ahead=1,
        num_memory_heads=2,
        relative_attention_type="rotary",
        attention_kwargs={"logits_soft_cap": 2.0},
        **HEADS,
    ),
    causal(LocalSelfAttention, "causal", radius=3, **HEADS),
    layer(TransientGlobalSelfAttention, "bias", radius=2, global_block_size=2, **HEADS, **BIAS),
    layer(
        TransientGlobalSelfAttention,
        "shared, in groups",
        radius=3,
        global_block_size=3,
        relative_attention_type=None,
        num_memory_heads=2,
        shared_kv=True,
        **HEADS,
    ),
    layer(TalkingHeadsSelfAttention, **TALKING, dynamic_projections=["x2l", "m2l", "x2w", "m2w"]),
    layer(GeneralBilinearSelfAttention, heads_dims=[("heads", 4)], **BIAS),
    causal(BranchedSelfAttention, **HEADS),
    causal(Synthesizer, "random", table_length=8, **HEADS),
    layer(Synthesizer, "factorized", table_length=8, synthesize_mode="factorized", **HEADS),
    layer(Synthesizer, "dense", table_length=16, synthesize_mode="dense_plus_alpha", **HEADS),
    layer(SelfAttentionFixup, **HEADS, num_blocks=2),
]
