"""Decoding with a stack: one position at a time, with caches."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.decode.decoding import decode
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.prompts import Prompts
from mtf_models.decode.result import DecodeResult
from mtf_models.decode.step import Caches, Step
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType
from mtf_models.mesh.size import Size
from mtf_models.mesh.variable import weights_in_use
from mtf_models.transformer.context import Context
from mtf_models.transformer.embedding import Embedding
from mtf_models.transformer.prefix import prefix_priority
from mtf_models.transformer.sequences import Features

if TYPE_CHECKING:
    from mtf_models.transformer.unitransformer import Unitransformer


_LEAST_WEIGHTS = 2**22
"""Of so many weights compiling the loop as a kernel pays soon."""

_MOST_ROWS = 32
"""Of more rows products take the time, and XLA's are no faster than others."""

_MOST_NARROW_ROWS = 1
"""The same of activations narrower than float32: XLA widens weights at each product."""


def decode_stepwise(
    stack: Unitransformer,
    embedding: Embedding,
    variable_dtype: VariableDType,
    prompt: Tensor,
    options: DecodeOptions,
    features: Features,
    encoded: Context | None = None,
    given: int = 0,
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
        given: how many positions of the prompt may have ids: they are read in one pass.
    """
    length = prompt.shape.get_dim_by_name("length")
    step = StackStep(stack, embedding, variable_dtype, length, encoded)
    prompts = Prompts.of(prompt, features.get("limits"))
    first, caches = None, {}
    if given:
        first, caches = step.prefill(prompts, given, options.first_id)
    return decode(step, prompts, step.vocab.dim, options, features.get("uniforms"), first, caches)


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
        constants: what layers compute of the encoder at the first position only, by name.
        hypotheses: see `Context`.
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
        self.hypotheses = 1

    def __call__(self, previous: Tensor, position: Tensor, caches: Caches) -> tuple[Tensor, Caches]:
        """See `Step`."""
        one = Dimension("length", 1)
        context = self._context(
            "incremental", mtf.reshape(position, Shape([one])), self.memory_length, dict(caches)
        )
        ids = mtf.reshape(previous, previous.shape + one)
        hidden = self.stack.hidden(context, ids, self.embedding)
        logits = self.stack.logits(context, hidden, self.embedding)
        # Padding has its part of the probability, as in training, and is never chosen.
        log_probabilities = mtf.log_softmax(mtf.to_float(logits), self.vocab.dim)
        log_probabilities = self.vocab.mask_padding(log_probabilities, first=self.vocab.real)
        return mtf.reshape(log_probabilities, logits.shape - one), context.caches

    def prefill(self, prompts: Prompts, given: int, first_id: int = 0) -> tuple[Tensor, Caches]:
        """Reads all prompts at once.

        Args:
            prompts: the rows.
            given: no prompt is longer.
            first_id: what is read before the first id.

        Returns:
            The length of the shortest prompt, int32 scalar, and caches, of each row for the
            position after its own prompt.
        """
        ids = mtf.slice(prompts.ids, 0, given + 1, "length")  # The last one is read one later.
        length = ids.shape.get_dim_by_name("length")
        memory = Dimension(self.memory_length.name, length.size)
        positions = mtf.mtf_range(ids.mesh, length)
        context = self._context("prefill", positions, memory, {})
        context.prompt_lengths = prompts.lengths
        context.cache_length = self.memory_length.size
        if self.stack.input_full_attention:
            context.priority = prefix_priority(ids)
        read = mtf.shift(ids, 1, length, wrap=False)
        read = mtf.where(mtf.equal(positions, 0), first_id, read, output_shape=ids.shape)
        self.stack.hidden(context, read, self.embedding)
        return mtf.reduce_min(prompts.lengths), context.caches

    def _context(
        self, mode: str, position: Tensor, memory_length: Dimension, caches: Caches
    ) -> Context:
        context = Context(
            mesh=position.mesh,
            mode=mode,
            variable_dtype=self.variable_dtype,
            length_dim=position.shape.dims[0],
            memory_length_dim=memory_length,
            d_model=self.stack.d_model,
            position=position,
            autoregressive=True,
            input_full_attention=self.stack.input_full_attention,
            caches=caches,
            constants=self.constants,
            hypotheses=self.hypotheses,
        )
        return context.attending(self.encoded)

    def repeated(self, times: int) -> StackStep:
        """See `Step`: what is known of the encoder is the same for all rows of one."""
        step = copy.copy(self)
        step.hypotheses = self.hypotheses * times
        return step

    def runs_as_kernel(self, count: int | Size) -> bool:
        """See `Step`: the small operations of few rows take longer than reading the weights."""
        wide = self.variable_dtype.activation.size >= tf.float32.size
        most = _MOST_ROWS if wide else _MOST_NARROW_ROWS
        if isinstance(count, Size) or count > most:
            return False
        return weights_in_use() >= _LEAST_WEIGHTS
