"""What stands in the way of an id: bans, penalties, and cuts of the distribution."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.decode.options import DecodeOptions
from mtf_models.mesh import Dimension, Tensor

NEVER = -float("inf")


def ends(ids: Tensor, options: DecodeOptions) -> Tensor:
    """Bool, of the shape of `ids`: whether an id ends a sequence."""
    found = mtf.equal(ids, options.stop_ids[0])
    for stop in options.stop_ids[1:]:
        found = mtf.logical_or(found, mtf.equal(ids, stop))
    return found


def banned(
    log_probabilities: Tensor,
    ids: Tensor,
    position: Tensor,
    vocab: Dimension,
    options: DecodeOptions,
) -> Tensor:
    """Log-probabilities with -inf for ids that must not come next.

    Args:
        log_probabilities: [batch, vocab].
        ids: [batch, length] int32, what each row has before `position`.
        position: int32 scalar.
        vocab: the ids.
        options: `never_end` and `no_repeat_ngram` are read.
    """
    found = log_probabilities
    if options.never_end:
        stops = ends(mtf.mtf_range(ids.mesh, vocab), options)
        found = mtf.where(stops, NEVER, found, output_shape=found.shape)
    if options.no_repeat_ngram:
        repeats = _repeated_runs(ids, position, options.no_repeat_ngram)
        found = mtf.where(_among(ids, repeats, vocab), NEVER, found)
    return found


def penalised(
    log_probabilities: Tensor, ids: Tensor, position: Tensor, vocab: Dimension, penalty: float
) -> Tensor:
    """Log-probabilities, those of ids that the row has already times `penalty`.

    Keskar et al. 2019, section 4.1. Log-probabilities are never positive, so that the penalty
    never becomes a reward.
    """
    if penalty == 1:
        return log_probabilities
    before = mtf.less(_positions(ids), position, output_shape=ids.shape)
    seen = _among(ids, before, vocab)
    return mtf.where(seen, log_probabilities * penalty, log_probabilities)


def cut(logits: Tensor, vocab: Dimension, top_k: int, top_p: float) -> Tensor:
    """Logits with -inf for all but the likeliest ids.

    First the `top_k` likeliest stay; of these then the fewest likeliest whose probability, among
    those `top_k`, is `top_p` together. An id as likely as the last one that stays, stays too.

    Args:
        logits: [batch, vocab].
        vocab: the ids.
        top_k: 0 for all.
        top_p: 1 for all.
    """
    count = min(top_k or vocab.size, vocab.size)
    if count == vocab.size and top_p >= 1:
        return logits
    candidates = Dimension("candidates", count)
    best, _ = mtf.top_k(logits, vocab, candidates)
    if top_p < 1:
        before = mtf.cumsum(mtf.softmax(best, candidates), candidates, exclusive=True)
        best = mtf.where(mtf.less(before, top_p), best, float("inf"))
    least = mtf.reduce_min(best, reduced_dim=candidates)
    return mtf.where(mtf.greater_equal(logits, least, output_shape=logits.shape), logits, NEVER)


def _repeated_runs(ids: Tensor, position: Tensor, size: int) -> Tensor:
    """[batch, length] bool: whether the id there followed the ids that are now the last ones."""
    positions = _positions(ids)
    length = positions.shape.dims[0]
    batch = ids.shape - length
    inside = mtf.logical_and(mtf.less(positions, position), mtf.greater_equal(positions, size - 1))
    follows = mtf.broadcast(inside, ids.shape)
    for back in range(1, size):
        here = mtf.equal(positions, position - back)
        last = mtf.where(here, ids, 0, output_shape=ids.shape)
        last = mtf.reduce_sum(last, output_shape=batch)
        same = mtf.equal(mtf.shift(ids, back, length, wrap=False), last, output_shape=ids.shape)
        follows = mtf.logical_and(follows, same)
    return follows


def _among(ids: Tensor, chosen: Tensor, vocab: Dimension) -> Tensor:
    """[batch, vocab] bool: which ids stand at the chosen positions of a row."""
    batch = ids.shape - ids.shape.get_dim_by_name("length")
    found = mtf.scatter(mtf.to_float(chosen), ids, vocab, output_shape=batch + vocab)
    return mtf.greater(found, 0)


def _positions(ids: Tensor) -> Tensor:
    return mtf.mtf_range(ids.mesh, ids.shape.get_dim_by_name("length"))
