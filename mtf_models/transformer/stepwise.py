"""Decoding with a stack: one position at a time, with caches."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import mtf_models.mesh as mtf
from mtf_models.decode.decoding import decode
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.prompts import Prompts
from mtf_models.decode.result import DecodeResult
from mtf_models.decode.rows import repeated
from mtf_models.decode.step import Caches, Step
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType
from mtf_models.transformer.context import Context
from mtf_models.transformer.embedding import Embedding
from mtf_models.transformer.prefix import read_prefix
from mtf_models.transformer.sequences import Features

if TYPE_CHECKING:
    from mtf_models.transformer.unitransformer import Unitransformer


def decode_stepwise(
    stack: Unitransformer,
    embedding: Embedding,
    variable_dtype: VariableDType,
    prompt: Tensor,
    options: DecodeOptions,
    features: Features,
    encoded: Context | None = None,
) -> DecodeResult:
    """Decodes after a prompt.

    Args:
        stack: autoregressive.
        embedding: of the stack.
        variable_dtype: dtypes of the variables.
        prompt: [batch, length] int32, 0 where ids are wanted.
        options: how to decode.
        features: may have "limits" [batch] and "uniforms" [batch, beam, length], see
            `decode.prompts.Prompts` and `decode.sampling.SamplingLoop`.
        encoded: of the encoder, if there is one.
    """
    length = prompt.shape.get_dim_by_name("length")
    step = StackStep(stack, embedding, variable_dtype, length, encoded)
    if stack.input_full_attention:
        step.constants |= read_prefix(stack, embedding, variable_dtype, prompt)
    prompts = Prompts.of(prompt, features.get("limits"))
    return decode(step, prompts, step.vocab.dim, options, features.get("uniforms"))


class StackStep(Step):
    """One position of a stack.

    Args:
        stack: autoregressive.
        embedding: of the stack.
        variable_dtype: dtypes of the variables.
        length: how many positions there are at the most.
        encoded: of the encoder, if there is one.

    Attributes:
        vocab: of the log-probabilities.
        constants: what layers compute of the rows at the first position only, by name, and what
            they were told of prefixes.
    """

    def __init__(
        self,
        stack: Unitransformer,
        embedding: Embedding,
        variable_dtype: VariableDType,
        length: Dimension,
        encoded: Context | None = None,
    ) -> None:
        self.stack = stack
        self.embedding = embedding
        self.variable_dtype = variable_dtype
        self.memory_length = Dimension("memory_length", length.size)
        self.vocab = stack.vocab(stack.output_vocab_size)
        self.encoded = encoded
        self.constants: Caches = {}

    def __call__(self, previous: Tensor, position: Tensor, caches: Caches) -> tuple[Tensor, Caches]:
        """See `Step`."""
        one = Dimension("length", 1)
        context = Context(
            mesh=previous.mesh,
            mode="incremental",
            variable_dtype=self.variable_dtype,
            length_dim=one,
            memory_length_dim=self.memory_length,
            d_model=self.stack.d_model,
            position=mtf.reshape(position, Shape([one])),
            autoregressive=True,
            input_full_attention=self.stack.input_full_attention,
            caches=dict(caches),
            constants=self.constants,
        ).attending(self.encoded)
        ids = mtf.reshape(previous, previous.shape + one)
        hidden = self.stack.hidden(context, ids, self.embedding)
        logits = self.stack.logits(context, hidden, self.embedding)
        # Padding has its part of the probability, as in training, and is never chosen.
        log_probabilities = mtf.log_softmax(mtf.to_float(logits), self.vocab.dim)
        log_probabilities = self.vocab.mask_padding(log_probabilities, first=self.vocab.real)
        return mtf.reshape(log_probabilities, logits.shape - one), context.caches

    def repeated(self, times: int) -> StackStep:
        """See `Step`: what is known of the encoder is repeated once, before the loop."""
        step = copy.copy(self)
        step.constants = {name: repeated(x, times) for name, x in self.constants.items()}
        step.encoded = self.encoded and self.encoded.encoder_repeated(times)
        return step
