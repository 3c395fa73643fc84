"""Beam search with a length penalty (Wu et al. 2016, https://arxiv.org/abs/1609.08144)."""

from __future__ import annotations

from typing import NamedTuple

import mtf_models.mesh as mtf
from mtf_models.decode import filters, rows
from mtf_models.decode.loop import advance_while
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.prompts import Prompts
from mtf_models.decode.result import NO_SEQUENCE, DecodeResult
from mtf_models.decode.step import Caches, Step
from mtf_models.mesh import Dimension, Tensor

NONE = -float("inf")
"""The log-probability of a hypothesis that there is not."""

_BEST = "best"


class _Found(NamedTuple):
    """Finished hypotheses, best first; scores of -inf where there are fewer.

    Attributes:
        ids: [batch, beam, length].
        scores: [batch, beam] float32, log-probabilities over the length penalty.
        log_probabilities: [batch, beam] float32.
    """

    ids: Tensor
    scores: Tensor
    log_probabilities: Tensor


class _Alive(NamedTuple):
    """Hypotheses that have not ended, best first.

    Attributes:
        ids: [batch, beam, length].
        log_probabilities: [batch, beam] float32.
        caches: of the step, each [batch * beam, ...].
    """

    ids: Tensor
    log_probabilities: Tensor
    caches: Caches


class _State(NamedTuple):
    """Of the loop.

    Attributes:
        position: int32 scalar, to decode next.
        alive: what is continued.
        found: what has ended.
    """

    position: Tensor
    alive: _Alive
    found: _Found


class _Candidates(NamedTuple):
    """The likeliest continuations of a row's hypotheses.

    Attributes:
        ids: [batch, best, length].
        log_probabilities: [batch, best].
        parents: [batch, best], which hypothesis is continued.
        ended: [batch, best] bool.
    """

    ids: Tensor
    log_probabilities: Tensor
    parents: Tensor
    ended: Tensor


class BeamSearch:
    """Keeps the likeliest hypotheses of each row.

    The best sequence of a row depends on no other row. With `stop_early`, as in the original, the
    search goes on with all rows until each has found its best; which sequences come after the best
    ones of a row may thus depend on how long the others take. Without, no row depends on another.

    Args:
        step: gives the log-probabilities of one position.
        prompts: the rows.
        vocab: of the log-probabilities.
        options: the size of the beam, the penalty, when to stop.
    """

    def __init__(
        self, step: Step, prompts: Prompts, vocab: Dimension, options: DecodeOptions
    ) -> None:
        self.step = step
        self.prompts = prompts
        self.vocab = vocab
        self.options = options
        self.beam = rows.beam_dim(options.beam_size)
        self.prefilled = False
        # Of so many continuations as many as the beam has do not end.
        self.needed = (1 + len(options.stop_ids)) * options.beam_size

    def run(self, first: Tensor, caches: Caches) -> DecodeResult:
        """Decodes.

        Args:
            first: int32 scalar, the first position that is computed; what is before is given.
            caches: see `decode`.
        """
        mesh, shape = self.prompts.mesh, self.prompts.batch + self.beam
        # A step before the loop tells what caches there are, and keeps what it keeps of each row.
        _, made = self.step(self._previous(self.prompts.ids, first), first, caches)
        self.step = self.step.repeated(self.beam.size)
        self.prefilled = bool(caches)
        ids = rows.spread(self.prompts.ids, self.beam.size)
        only = mtf.equal(mtf.mtf_range(mesh, self.beam), 0)
        alive = _Alive(
            ids,
            mtf.where(only, mtf.zeros(mesh, shape), NONE, output_shape=shape),
            rows.first_caches(made, caches, self.beam.size),
        )
        nothing = mtf.constant(mesh, NONE, shape)
        state = _State(first, alive, _Found(mtf.zeros_like(ids), nothing, nothing))
        as_kernel = self.step.runs_as_kernel(state.alive.log_probabilities.size)
        return self._result(advance_while(self._goes_on, self._advance, state, as_kernel))

    def _goes_on(self, state: _State) -> Tensor:
        return mtf.reduce_any(mtf.logical_not(self._done(state)))

    def _done(self, state: _State) -> Tensor:
        """[batch] bool: whether a row is at its limit, or settled."""
        return mtf.logical_or(self._settled(state), self.prompts.are_over(state.position))

    def _settled(self, state: _State) -> Tensor:
        """[batch] bool: whether nothing can come that is better than what is found for a row."""
        best = mtf.reduce_max(state.alive.log_probabilities, reduced_dim=self.beam)
        bound = best / self._penalty(self.prompts.limits)
        found = mtf.greater(state.found.scores, NONE)
        # Finished hypotheses that are still missing: what is found beats them, or waits for them.
        missing = -NONE if self.options.stop_early else NONE
        worst = mtf.reduce_min(mtf.where(found, state.found.scores, missing), reduced_dim=self.beam)
        settled = mtf.logical_and(
            mtf.reduce_any(found, reduced_dim=self.beam), mtf.greater(worst, bound)
        )
        settled = mtf.logical_or(settled, mtf.equal(best, NONE))
        return mtf.logical_and(settled, mtf.logical_not(self.prompts.are_given(state.position)))

    def _penalty(self, end: Tensor) -> Tensor:
        """The length penalty of hypotheses that end before a position, [batch] float32."""
        count = mtf.to_float(mtf.sub(end, self.prompts.lengths, output_shape=self.prompts.batch))
        return mtf.pow((mtf.maximum(count, 1.0) + 5.0) / 6.0, self.options.alpha)

    def _advance(self, state: _State) -> _State:
        previous = self._previous(rows.merged(state.alive.ids), state.position)
        log_probabilities, caches = self.step(previous, state.position, state.alive.caches)
        if self.prefilled:
            given = rows.repeated(self.prompts.are_given(state.position), self.beam.size)
            caches = rows.kept(given, state.alive.caches, caches)
        return self._continued(state, log_probabilities, caches)

    def _previous(self, ids: Tensor, position: Tensor) -> Tensor:
        previous = self.prompts.at(ids, position - 1)
        return mtf.where(mtf.equal(position, 0), self.options.first_id, previous)

    def _continued(self, state: _State, log_probabilities: Tensor, caches: Caches) -> _State:
        """The state with an id put to each hypothesis; prompts and finished rows stay."""
        stays = self._stays(state)
        candidates = self._candidates(state, mtf.to_float(log_probabilities))
        found = self._with_ended(state, candidates)
        going = mtf.where(candidates.ended, NONE, candidates.log_probabilities)
        best, place = mtf.top_k(going, _dim(going, _BEST), self.beam)
        parents = self._chosen(candidates.parents, place)
        own = mtf.mtf_range(place.mesh, self.beam)
        parents = mtf.where(stays, own, parents, output_shape=parents.shape)
        alive = _Alive(
            self._unless(stays, state.alive.ids, self._chosen(candidates.ids, place)),
            self._unless(stays, state.alive.log_probabilities, best),
            rows.reordered(caches, parents),
        )
        found = _Found(
            *(self._unless(stays, a, b) for a, b in zip(state.found, found, strict=True))
        )
        return _State(state.position + 1, alive, found)

    def _stays(self, state: _State) -> Tensor:
        """[batch] bool: whether the hypotheses of a row are left as they are."""
        position = state.position
        stays = mtf.logical_or(self.prompts.are_given(position), self.prompts.are_over(position))
        return stays if self.options.stop_early else mtf.logical_or(stays, self._settled(state))

    def _candidates(self, state: _State, log_probabilities: Tensor) -> _Candidates:
        position, alive = state.position, state.alive
        ids = rows.merged(alive.ids)
        allowed = filters.banned(log_probabilities, ids, position, self.vocab, self.options)
        each = min(self.options.num_prefilter or self.needed, self.vocab.size)
        best, token = mtf.top_k(allowed, self.vocab, Dimension("each", each))
        best, token = (rows.grouped(x, self.beam) for x in (best, token))
        best = mtf.add(best, alive.log_probabilities, output_shape=best.shape)
        every = Dimension("every", each * self.beam.size)
        best, token = (mtf.reshape(x, self.prompts.batch + every) for x in (best, token))
        count = Dimension(_BEST, min(self.needed, every.size))
        best, place = mtf.top_k(best, every, count)
        token = mtf.cast(mtf.gather(token, place, every), alive.ids.dtype)
        parents = mtf.floordiv(place, each)
        return _Candidates(
            self.prompts.written(rows.chosen(alive.ids, parents, self.beam), position, token),
            best,
            parents,
            filters.ends(token, self.options),
        )

    def _with_ended(self, state: _State, candidates: _Candidates) -> _Found:
        """The best of what was found before and what ends now."""
        score = candidates.log_probabilities / self._penalty(state.position + 1)
        score = mtf.where(candidates.ended, score, NONE)
        now = _Found(candidates.ids, score, candidates.log_probabilities)
        both = _Found(
            *(
                mtf.concat([mtf.rename_dimension(a, self.beam.name, _BEST), b], _BEST)
                for a, b in zip(state.found, now, strict=True)
            )
        )
        scores, place = mtf.top_k(both.scores, _dim(both.scores, _BEST), self.beam)
        ids, log_probabilities = (
            self._chosen(x, place) for x in (both.ids, both.log_probabilities)
        )
        return _Found(ids, scores, log_probabilities)

    def _chosen(self, x: Tensor, place: Tensor) -> Tensor:
        return rows.chosen(x, place, _dim(x, _BEST))

    def _unless(self, stays: Tensor, old: Tensor, new: Tensor) -> Tensor:
        return mtf.where(stays, old, new, output_shape=old.shape)

    def _result(self, state: _State) -> DecodeResult:
        """What was found; where nothing was, what is alive, whose scores have no penalty."""
        alive = state.alive
        unfinished = _Found(alive.ids, alive.log_probabilities, alive.log_probabilities)
        none = mtf.equal(mtf.reduce_max(state.found.scores, reduced_dim=self.beam), NONE)
        found = _Found(
            *(self._unless(none, a, b) for a, b in zip(unfinished, state.found, strict=True))
        )
        missing = mtf.equal(found.scores, NONE)
        found = _Found(
            mtf.where(missing, 0, found.ids, output_shape=found.ids.shape),
            mtf.where(missing, NO_SEQUENCE, found.scores),
            mtf.where(missing, NO_SEQUENCE, found.log_probabilities),
        )
        return DecodeResult(*(self._first(x) for x in found))

    def _first(self, x: Tensor) -> Tensor:
        count = self.options.num_return
        kept = mtf.slice(x, 0, count, self.beam.name)
        return kept if count > 1 else mtf.reshape(kept, kept.shape - rows.beam_dim(1))


def _dim(x: Tensor, name: str) -> Dimension:
    return x.shape.get_dim_by_name(name)
