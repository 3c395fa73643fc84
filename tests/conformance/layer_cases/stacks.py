"""Every class of stack."""

from layer_cases.attention import BIAS, HEADS
from layer_cases.case import INPUTS, Case
from mtf_models.testing import context_of
from mtf_models.transformer import sublayers
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.feed_forward import DenseReluDense
from mtf_models.transformer.funnel import FunnelTransformerLayerStack
from mtf_models.transformer.reversible import ReversibleLayerStack
from mtf_models.transformer.stack import LayerStack, make_layer_stack
from mtf_models.transformer.universal.stack import UTLayerStack

SUBLAYERS = {
    "sublayers_per_layer": [
        sublayers.sublayer_rms_norm,
        sublayers.sublayer_call_layer,
        sublayers.sublayer_residual,
    ],
    "sublayers_final": [sublayers.sublayer_true_layer_norm],
}
FUNNEL = {"n_blocks": 2, "block_param_size": [1, 1], "block_repeat_size": [1, 2]}
UNIVERSAL = {
    "act_type": "basic",
    "act_max_steps": 2,
    "act_epsilon": 0.1,
    "num_rec_steps": 2,
    "num_inrecurrence_layers": 1,
    "position_start_index": None,
    "add_or_concat_timing_signal": "add",
    "step_timing_signal_type": "learned",
    "add_position_timing_signal": True,
    "add_step_timing_signal": True,
    "mix_with_transformer_before_ut": False,
    "mix_with_transformer_after_ut": False,
    "gates_inputs": "ist",
    "gate_ffn_layer": "dense",
    "gating_type": "gru",
}


def stack(cls, also="", num_layers=1, **options):
    """Blocks of attention and a feed-forward layer."""
    layers = [(SelfAttention, {**HEADS, **BIAS}), (DenseReluDense, {"hidden_size": 16})]

    def function(x, rows):
        context = context_of(x, sequence_id=rows)
        made = make_layer_stack(layers, lambda layers: cls(layers, **options), num_layers)
        return [made.call(context, x), *context.losses.values()]

    return Case(cls, function, INPUTS, also)


CASES = [
    stack(LayerStack, num_layers=2, **SUBLAYERS),
    stack(ReversibleLayerStack, **SUBLAYERS),
    stack(FunnelTransformerLayerStack, num_layers=2, **FUNNEL, **SUBLAYERS),
    stack(UTLayerStack, "act", **UNIVERSAL, recurrence_type="act", use_gated_transformer=False),
    stack(UTLayerStack, "gated", **UNIVERSAL, recurrence_type="basic", use_gated_transformer=True),
]
