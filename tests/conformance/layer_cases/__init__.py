"""A case, or several, of every layer, stack, vocabulary and model of the package."""

from layer_cases import (
    attention,
    convolution,
    encoder_attention,
    experts,
    feed_forward,
    models,
    stacks,
    vocabularies,
)
from layer_cases.case import Subject

_WIDTHS = "heads:m,d_ff:m,vocab:m"

SUBJECTS = [
    Subject("attention", attention.CASES, _WIDTHS),
    Subject("attention to an encoder", encoder_attention.CASES, _WIDTHS),
    Subject("feed forward", feed_forward.CASES, "d_ff:m,memory_slots:m,heads:m"),
    Subject("convolution", convolution.CASES, "batch:m"),
    Subject("experts", experts.CASES, "batch:m,experts:m"),
    Subject("stacks", stacks.CASES, _WIDTHS),
    Subject("vocabularies", vocabularies.CASES, "vocab:m"),
    Subject("models", models.CASES, _WIDTHS),
]
CASES = [case for subject in SUBJECTS for case in subject.cases]
