"""One token after another, in a single loop with caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Tensor

EOS = 1

Caches = dict[str, Tensor]
StepFunction = Callable[[Tensor, Tensor, Caches], tuple[Tensor, Caches]]
"""Takes the previous ids [batch], the position (int32 scalar) and the caches, which are empty at
position 0; returns log-probabilities [batch, vocab], -inf for ids that are not wanted, and the
caches, always the same names and shapes."""


@dataclass(frozen=True)
class _State:
    """Of the loop.

    Attributes:
        step: int32 scalar, the position to decode next.
        ids: [batch, length].
        scores: [batch] float32.
        finished: [batch] int32, 1 after the end of sequence.
        caches: of the step function.
    """

    step: Tensor
    ids: Tensor
    scores: Tensor
    finished: Tensor
    caches: Caches

    def as_list(self) -> list[Tensor]:
        names = sorted(self.caches)
        return [self.step, self.ids, self.scores, self.finished, *(self.caches[n] for n in names)]

    def replaced(self, tensors: list[Tensor]) -> _State:
        return _State(*tensors[:4], dict(zip(sorted(self.caches), tensors[4:], strict=True)))


def greedy_decode(
    step_function: StepFunction, prompt: Tensor, vocab_dim: Dimension, eos_id: int = EOS
) -> tuple[Tensor, Tensor]:
    """Takes the most likely token at each position, until every row has ended.

    Args:
        step_function: gives the log-probabilities of one position.
        prompt: [batch, length] int32; its ids are kept, and decoding goes on after the last one.
        vocab_dim: of the log-probabilities.
        eos_id: ends a row, when it is decoded and not prompted.

    Returns:
        ids [batch, length], zero after the end, and scores [batch], the log-probability of the
        decoded ids with the end.
    """
    return _GreedyLoop(step_function, prompt, vocab_dim, eos_id).run()


class _GreedyLoop:
    def __init__(
        self, step_function: StepFunction, prompt: Tensor, vocab_dim: Dimension, eos_id: int
    ) -> None:
        self.step_function = step_function
        self.prompt = prompt
        self.vocab_dim = vocab_dim
        self.eos_id = eos_id
        self.length = prompt.shape.get_dim_by_name("length")
        self.batch = prompt.shape - self.length
        self.positions = mtf.mtf_range(prompt.mesh, self.length)
        given = mtf.to_int32(mtf.not_equal(prompt, 0))
        self.prompt_length = mtf.reduce_sum(given, reduced_dim=self.length)

    def run(self) -> tuple[Tensor, Tensor]:
        """Position 0 is computed before the loop, which shows what caches there are."""
        mesh = self.prompt.mesh
        start = mtf.constant(mesh, 0, dtype=self.positions.dtype)
        finished = mtf.zeros(mesh, self.batch, self.positions.dtype)
        first = self._advance(_State(start, self.prompt, mtf.zeros(mesh, self.batch), finished, {}))
        final = mtf.while_loop(
            lambda *tensors: self._goes_on(first.replaced(list(tensors))),
            lambda *tensors: self._advance(first.replaced(list(tensors))).as_list(),
            first.as_list(),
        )
        last = first.replaced(final)
        return last.ids, last.scores

    def _goes_on(self, state: _State) -> Tensor:
        rows_left = mtf.reduce_sum(1 - state.finished)
        return mtf.logical_and(mtf.less(state.step, self.length.size), mtf.greater(rows_left, 0))

    def _advance(self, state: _State) -> _State:
        previous = self._at(state.ids, state.step - 1)
        log_probabilities, caches = self.step_function(previous, state.step, state.caches)
        log_probability, best = mtf.top_1(mtf.to_float(log_probabilities), self.vocab_dim)
        prompted = mtf.less(state.step, self.prompt_length, output_shape=self.batch)
        decoding = mtf.logical_and(mtf.logical_not(prompted), mtf.equal(state.finished, 0))
        otherwise = mtf.where(prompted, self._at(self.prompt, state.step), 0)
        token = mtf.where(decoding, mtf.cast(best, self.prompt.dtype), otherwise)
        ended = mtf.logical_and(decoding, mtf.equal(token, self.eos_id))
        here = mtf.equal(self.positions, state.step)
        return _State(
            step=state.step + 1,
            ids=mtf.where(here, token, state.ids, output_shape=self.prompt.shape),
            scores=state.scores + mtf.where(decoding, log_probability, 0.0),
            finished=mtf.maximum(state.finished, mtf.to_int32(ended)),
            caches=caches,
        )

    def _at(self, ids: Tensor, position: Tensor) -> Tensor:
        """[batch, length] ids at one position; 0 before the first."""
        here = mtf.equal(self.positions, position)
        return mtf.reduce_sum(
            mtf.where(here, ids, 0, output_shape=ids.shape), output_shape=self.batch
        )
