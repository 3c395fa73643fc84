"""Every class of convolution over positions."""

from layer_cases.case import causal, layer
from mtf_models.transformer.convolution import Conv1DLayer, SeparableConv1DLayer
from mtf_models.transformer.evolved import (
    DecoderConvolutionalLayer,
    EncoderConvolutionalLayer,
    GatedLinearUnitLayer,
)
from mtf_models.transformer.local_convolution import (
    DynamicConv1DLocalAttn,
    LightweightConv1DLocalAttn,
    LocalConvAttnBlock,
)

NEAR = {"min_relative_pos": -2, "max_relative_pos": 0, "output_size": 8}
AROUND = {"min_relative_pos": -1, "max_relative_pos": 1, "output_size": 8}
EVOLVED = {"d_model": 8, "dropout_rate": 0.0}

CASES = [
    layer(Conv1DLayer, filter_size=3, output_size=8, activation="tanh"),
    causal(Conv1DLayer, "causal", filter_size=3, output_size=8),
    causal(SeparableConv1DLayer, **NEAR),
    layer(LightweightConv1DLocalAttn, **AROUND, num_unique_depth_filters=2),
    layer(DynamicConv1DLocalAttn, **AROUND, num_unique_depth_filters=2),
    causal(LocalConvAttnBlock, **NEAR),
    causal(LocalConvAttnBlock, "dynamic", **NEAR, attention_type="dynamic_conv"),
    layer(GatedLinearUnitLayer),
    layer(EncoderConvolutionalLayer, **EVOLVED),
    causal(DecoderConvolutionalLayer, **EVOLVED),
]
