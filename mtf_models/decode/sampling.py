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
position 0; returns logits [batch, vocab] and the caches, always the same names and shapes."""


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

    Position 0 is computed before the loop, which shows what caches there are.

    Args:
        step_function: gives the logits of one position.
        prompt: [batch, length] int32; its ids are kept, and decoding goes on after the last one.
        vocab_dim: of the logits.
        eos_id: ends a row, when it is decoded and not prompted.

    Returns:
        ids [batch, length], zero after the end, and scores [batch], the log-probability of the
        decoded ids with the end.
    """
    length = prompt.shape.get_dim_by_name("length")
    batch = prompt.shape - length
    mesh = prompt.mesh
    positions = mtf.mtf_range(mesh, length)
    prompt_length = mtf.reduce_sum(mtf.to_int32(mtf.not_equal(prompt, 0)), reduced_dim=length)

    def at(ids: Tensor, position: Tensor) -> Tensor:
        here = mtf.equal(positions, position)
        return mtf.reduce_sum(mtf.where(here, ids, 0, output_shape=ids.shape), output_shape=batch)

    def advance(state: _State) -> _State:
        logits, caches = step_function(at(state.ids, state.step - 1), state.step, state.caches)
        logits = mtf.to_float(logits)
        best = mtf.cast(mtf.argmax(logits, vocab_dim), prompt.dtype)
        log_probability = mtf.reduce_max(logits, reduced_dim=vocab_dim) - mtf.reduce_logsumexp(
            logits, vocab_dim
        )
        prompted = mtf.less(state.step, prompt_length, output_shape=batch)
        decoding = mtf.logical_and(mtf.logical_not(prompted), mtf.equal(state.finished, 0))
        token = mtf.where(decoding, best, mtf.where(prompted, at(prompt, state.step), 0))
        ended = mtf.logical_and(decoding, mtf.equal(token, eos_id))
        here = mtf.equal(positions, state.step)
        return _State(
            step=state.step + 1,
            ids=mtf.where(here, token, state.ids, output_shape=prompt.shape),
            scores=state.scores + mtf.where(decoding, log_probability, 0.0),
            finished=mtf.maximum(state.finished, mtf.to_int32(ended)),
            caches=caches,
        )

    def unfinished(*tensors: Tensor) -> Tensor:
        rows_left = mtf.reduce_sum(1 - tensors[3])
        return mtf.logical_and(mtf.less(tensors[0], length.size), mtf.greater(rows_left, 0))

    first = advance(
        _State(
            mtf.constant(mesh, 0, dtype=positions.dtype),
            prompt,
            mtf.zeros(mesh, batch),
            mtf.zeros(mesh, batch, dtype=positions.dtype),
            {},
        )
    )
    final = mtf.while_loop(
        unfinished,
        lambda *tensors: advance(first.replaced(list(tensors))).as_list(),
        first.as_list(),
    )
    return final[1], final[2]
