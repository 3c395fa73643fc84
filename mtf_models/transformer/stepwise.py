"""Decoding with a stack: one position at a time, with caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mtf_models.mesh as mtf
from mtf_models.decode.sampling import Caches, greedy_decode
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType
from mtf_models.transformer.context import Context
from mtf_models.transformer.embedding import Embedding
from mtf_models.transformer.output import DecodeResult

if TYPE_CHECKING:
    from mtf_models.transformer.unitransformer import Unitransformer


def decode_stepwise(
    stack: Unitransformer,
    embedding: Embedding,
    variable_dtype: VariableDType,
    prompt: Tensor,
    encoded: Context | None = None,
) -> DecodeResult:
    """Decodes greedily after a prompt.

    Args:
        stack: autoregressive.
        embedding: of the stack.
        variable_dtype: dtypes of the variables.
        prompt: [batch, length] int32, 0 where ids are wanted.
        encoded: of the encoder, if there is one.
    """
    length = prompt.shape.get_dim_by_name("length")
    one = Dimension("length", 1)
    vocab = stack.vocab(stack.output_vocab_size)
    constants: Caches = {}

    def step(previous: Tensor, position: Tensor, caches: Caches) -> tuple[Tensor, Caches]:
        context = Context(
            mesh=prompt.mesh,
            mode="incremental",
            variable_dtype=variable_dtype,
            length_dim=one,
            memory_length_dim=Dimension("memory_length", length.size),
            d_model=stack.d_model,
            position=mtf.reshape(position, Shape([one])),
            autoregressive=True,
            caches=dict(caches),
            constants=constants,
        ).attending(encoded)
        ids = mtf.reshape(previous, previous.shape + one)
        logits = stack.logits(context, stack.hidden(context, ids, embedding), embedding)
        # Padding has its part of the probability, as in training, and is never chosen.
        log_probabilities = mtf.log_softmax(mtf.to_float(logits), vocab.dim)
        log_probabilities = vocab.mask_padding(log_probabilities, first=vocab.real)
        return mtf.reshape(log_probabilities, logits.shape - one), context.caches

    return DecodeResult(*greedy_decode(step, prompt, vocab.dim))
