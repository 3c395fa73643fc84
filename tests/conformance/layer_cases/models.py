"""Every class of model, from ids to logits and loss."""

import numpy as np

import mtf_models as mtf
from layer_cases.attention import HEADS
from layer_cases.case import B, Case, L, integers
from layer_cases.stacks import FUNNEL, SUBLAYERS
from mtf_models.transformer.attention import EncDecAttention, SelfAttention
from mtf_models.transformer.bitransformer import Bitransformer
from mtf_models.transformer.feed_forward import DenseReluDense
from mtf_models.transformer.funnel import BitransformerFunnel, FunnelTransformerLayerStack
from mtf_models.transformer.stack import LayerStack, make_layer_stack
from mtf_models.transformer.student_teacher import StudentTeacher
from mtf_models.transformer.unitransformer import Unitransformer

VOCAB = 16


def network(name, attentions, stack=LayerStack, num_layers=1, **options):
    """A stack between an embedding and, in a decoder, logits."""
    layers = [*((cls, HEADS) for cls in attentions), (DenseReluDense, {"hidden_size": 16})]
    options = {**SUBLAYERS, **options}
    decodes = name == "decoder"
    return Unitransformer(
        make_layer_stack(layers, lambda layers: stack(layers, **options), num_layers),
        d_model=8,
        input_vocab_size=VOCAB,
        output_vocab_size=VOCAB if decodes else None,
        autoregressive=decodes,
        max_length=8,
        vocab_divisor=VOCAB,
        name=name,
    )


def encoder_decoder(cls=Bitransformer, **encoder):
    decoder = network("decoder", [SelfAttention, EncDecAttention])
    return cls(network("encoder", [SelfAttention], **encoder), decoder)


def distilled():
    student, teacher = encoder_decoder(), encoder_decoder()
    return StudentTeacher(student, teacher, temperature=2.0, fraction_soft=0.5)


def model(cls, make):
    """Logits, times a number by which the dtype of activations comes in, and the loss."""

    def function(gain, inputs, targets):
        dtype = mtf.VariableDType(activation=gain.dtype)
        out = make().call({"inputs": inputs, "targets": targets}, "eval", dtype)
        return [out.logits * gain, out.loss]

    inputs, targets = integers(VOCAB - 1, B, L), integers(VOCAB, B, L)
    targets[1][1, 5:] = inputs[1][2, 6:] = 0
    gain = (mtf.Shape([]), np.array(1.5))
    return Case(cls, function, {"gain": gain, "inputs": inputs, "targets": targets})


CASES = [
    model(Unitransformer, lambda: network("decoder", [SelfAttention])),
    model(Bitransformer, encoder_decoder),
    model(
        BitransformerFunnel,
        lambda: encoder_decoder(
            BitransformerFunnel, stack=FunnelTransformerLayerStack, num_layers=2, **FUNNEL
        ),
    ),
    model(StudentTeacher, distilled),
]
