"""Every class of mixture, with every routing."""

from layer_cases.attention import HEADS
from layer_cases.case import causal, decoder_layer, layer
from mtf_models.transformer.moe.attention import ExpertsEncDecAttention, ExpertsSelfAttention
from mtf_models.transformer.moe.heterogeneous import HeterogeneousMoE1D
from mtf_models.transformer.moe.layer import MoE1D
from mtf_models.transformer.moe.routing import ROUTINGS
from mtf_models.transformer.moe.two_level import MoE2D

# Eight groups, of which two or four devices have as many each.
GROUPS = {"group_size": 4, "min_expert_capacity": 1, "capacity_factor_eval": 1.0}
MIXTURE = {
    **GROUPS,
    "num_experts": 4,
    "hidden_size": 8,
    "second_policy_eval": "all",
    "z_loss": 0.1,
    "loss_coef": 0.5,
}
KINDS = [
    {"percent_number": 50, "layers": 2, "width": 8},
    {"percent_number": 50, "layers": 1, "width": 4},
]
PROJECTIONS = {**GROUPS, **HEADS, "num_experts": 4, "hidden_size": 8, "shared_kv": True}

CASES = [
    *(
        layer(MoE1D, name, moe_gating=name, **MIXTURE, top_n_num_experts_per_token=3)
        for name in ROUTINGS
        if name != "random"  # which draws where a token goes
    ),
    layer(
        HeterogeneousMoE1D,
        moe_gating="switch",
        **MIXTURE,
        moe_num_layers=2,
        heterogeneous_mask_info=KINDS,
    ),
    layer(
        MoE2D,
        moe_gating="switch",
        **{**MIXTURE, "num_experts": 2},
        expert_x=2,
        expert_y=2,
    ),
    causal(ExpertsSelfAttention, **PROJECTIONS, sees_sequence=True),
    decoder_layer(ExpertsEncDecAttention, **PROJECTIONS, sees_sequence=True),
    decoder_layer(ExpertsEncDecAttention, "of the original", **PROJECTIONS),
]
