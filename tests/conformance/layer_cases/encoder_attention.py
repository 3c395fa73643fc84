"""Every class of attention of a decoder to its encoder."""

from layer_cases.attention import HEADS, TALKING
from layer_cases.case import decoder_layer
from mtf_models.transformer.attention import EncDecAttention
from mtf_models.transformer.branched import BranchedEncDecAttention
from mtf_models.transformer.evolved import DecoderAttentionLayer
from mtf_models.transformer.fixup import EncDecAttentionFixup
from mtf_models.transformer.general_bilinear import GeneralBilinearEncDecAttention
from mtf_models.transformer.talking_heads import TalkingHeadsEncDecAttention
from mtf_models.transformer.transparent import TransparentEncDecAttention

MODULES = {
    "layers_per_encoder_module": 1,
    "layers_per_decoder_module": 1,
    "encoder_num_modules": 1,
    "decoder_num_modules": 2,
}

CASES = [
    decoder_layer(EncDecAttention, **HEADS),
    decoder_layer(TransparentEncDecAttention, **HEADS, **MODULES),
    decoder_layer(TalkingHeadsEncDecAttention, **TALKING),
    decoder_layer(GeneralBilinearEncDecAttention, heads_dims=[("heads", 4)]),
    decoder_layer(BranchedEncDecAttention, **HEADS),
    decoder_layer(EncDecAttentionFixup, **HEADS, num_blocks=2),
    decoder_layer(DecoderAttentionLayer, base_num_heads=2),
]
