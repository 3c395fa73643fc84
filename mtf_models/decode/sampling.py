"""One id after another: the most likely one, or one that is drawn."""

from __future__ import annotations

from typing import NamedTuple

import mtf_models.mesh as mtf
from mtf_models.decode import filters, rows
from mtf_models.decode.loop import advance_while
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.prompts import Prompts
from mtf_models.decode.result import DecodeResult
from mtf_models.decode.step import Caches, Step
from mtf_models.mesh import Dimension, Tensor


class _State(NamedTuple):
    """Of the loop; rows are those of the batch, each as often as sequences are drawn for it.

    Attributes:
        position: int32 scalar, to decode next.
        ids: [batch, length].
        log_probabilities: [batch] float32.
        finished: [batch] int32, 1 after the end of a sequence.
        caches: of the step.
    """

    position: Tensor
    ids: Tensor
    log_probabilities: Tensor
    finished: Tensor
    caches: Caches


class SamplingLoop:
    """Greedy decoding and sampling.

    Args:
        step: gives the log-probabilities of one position.
        prompts: the rows.
        vocab: of the log-probabilities.
        options: how to choose.
        uniforms: [batch, beam, length] float32, for each id to draw a number from 0 to below 1;
            needed if options draw. The same numbers draw the same ids whatever else is decoded.
    """

    def __init__(
        self,
        step: Step,
        prompts: Prompts,
        vocab: Dimension,
        options: DecodeOptions,
        uniforms: Tensor | None = None,
    ) -> None:
        self.step = step
        self.first_prompts = prompts
        self.prompts = prompts.repeated(options.num_return)
        self.vocab = vocab
        self.options = options
        self.prefilled = False
        self.uniforms = rows.merged(uniforms) if options.draws else None

    def run(self, first: Tensor, caches: Caches) -> DecodeResult:
        """Decodes.

        Args:
            first: int32 scalar, the first position that is computed; what is before is given.
            caches: see `decode`.
        """
        mesh, batch, count = self.prompts.mesh, self.prompts.batch, self.options.num_return
        # A step before the loop tells what caches there are, and keeps what it keeps of each row.
        previous = self._previous(self.first_prompts, self.first_prompts.ids, first)
        _, made = self.step(previous, first, caches)
        self.step = self.step.repeated(count)
        self.prefilled = bool(caches)
        state = _State(
            position=first,
            ids=self.prompts.ids,
            log_probabilities=mtf.zeros(mesh, batch),
            finished=mtf.zeros(mesh, batch, first.dtype),
            caches=rows.first_caches(made, caches, count),
        )
        # XLA cannot call the host.
        as_kernel = self.options.listener is None and self.step.runs_as_kernel(batch.size)
        return self._result(advance_while(self._goes_on, self._advance, state, as_kernel))

    def _goes_on(self, state: _State) -> Tensor:
        done = mtf.logical_or(mtf.greater(state.finished, 0), self.prompts.are_over(state.position))
        return mtf.reduce_any(mtf.logical_not(done))

    def _advance(self, state: _State) -> _State:
        previous = self._previous(self.prompts, state.ids, state.position)
        log_probabilities, caches = self.step(previous, state.position, state.caches)
        if self.prefilled:
            caches = rows.kept(self.prompts.are_given(state.position), state.caches, caches)
        return self._taken(state, log_probabilities, caches)

    def _previous(self, prompts: Prompts, ids: Tensor, position: Tensor) -> Tensor:
        previous = prompts.at(ids, position - 1)
        return mtf.where(mtf.equal(position, 0), self.options.first_id, previous)

    def _taken(self, state: _State, log_probabilities: Tensor, caches: Caches) -> _State:
        """The state with an id taken at its position."""
        prompts, position = self.prompts, state.position
        log_probabilities = mtf.to_float(log_probabilities)
        log_probability, token = self._choose(state, log_probabilities)
        given = prompts.are_given(position)
        closed = mtf.logical_or(given, prompts.are_over(position))
        decoding = mtf.logical_and(mtf.logical_not(closed), mtf.equal(state.finished, 0))
        otherwise = mtf.where(given, prompts.at(prompts.ids, position), 0)
        token = mtf.where(decoding, token, otherwise)
        ended = mtf.to_int32(mtf.logical_and(decoding, filters.ends(token, self.options)))
        if self.options.listener is not None:
            shown = mtf.where(decoding, token, -1)
            ended = mtf.maximum(ended, self.options.listener.ended(position, shown))
        return _State(
            position=position + 1,
            ids=prompts.written(state.ids, position, token),
            log_probabilities=state.log_probabilities + mtf.where(decoding, log_probability, 0.0),
            finished=mtf.maximum(state.finished, ended),
            caches=caches,
        )

    def _choose(self, state: _State, log_probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """[batch] the log-probability, by the model alone, of the chosen ids, and the ids."""
        options, vocab, before = self.options, self.vocab, (state.ids, state.position)
        scores = filters.banned(log_probabilities, *before, vocab, options)
        scores = filters.penalised(scores, *before, vocab, options.repetition_penalty)
        if options.draws:
            logits = filters.cut(scores / options.temperature, vocab, options.top_k, options.top_p)
            token = draw(logits, vocab, self.prompts.at(self.uniforms, state.position))
        else:
            token = mtf.argmax(scores, vocab)
        token = mtf.cast(token, state.ids.dtype)
        return mtf.gather(log_probabilities, token, vocab, in_range=True), token

    def _result(self, state: _State) -> DecodeResult:
        found = DecodeResult(state.ids, state.log_probabilities, state.log_probabilities)
        if self.options.num_return == 1:
            return found
        beam = rows.beam_dim(self.options.num_return)
        ids, scores = (rows.grouped(x, beam) for x in (found.ids, found.scores))
        return DecodeResult(ids, scores, scores)


def draw(logits: Tensor, vocab: Dimension, uniform: Tensor) -> Tensor:
    """Draws an id of each row with the probabilities softmax(logits), by their inverse.

    Args:
        logits: [batch, vocab] float32.
        vocab: the ids.
        uniform: [batch] from 0 to below 1: the id is the first up to which the probabilities are
            more than that together.

    Returns:
        [batch] int32; never an id whose logit is -inf.
    """
    probabilities = mtf.softmax(logits, vocab)
    upto = mtf.cumsum(probabilities, vocab)
    # The sum is not exactly 1, and must be more than what is asked for.
    whole = mtf.reduce_max(upto, reduced_dim=vocab) * (1 - 1e-6)
    reached = mtf.greater(upto, uniform * whole, output_shape=logits.shape)
    # Where sums are formed in parallel they may grow a little at an id of no probability.
    reached = mtf.logical_and(reached, mtf.greater(probabilities, 0))
    return mtf.argmax(mtf.to_int32(reached), vocab)
