"""Decoding by a step, of whatever kind the options ask for."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.decode.beam import BeamSearch
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.prompts import Prompts
from mtf_models.decode.result import DecodeResult
from mtf_models.decode.sampling import SamplingLoop
from mtf_models.decode.step import Caches, Step
from mtf_models.mesh import Dimension, Tensor


def decode(
    step: Step,
    prompts: Prompts,
    vocab: Dimension,
    options: DecodeOptions,
    uniforms: Tensor | None = None,
    first: Tensor | None = None,
    caches: Caches | None = None,
) -> DecodeResult:
    """Decodes every row of a batch, in one loop that ends when all rows have.

    Args:
        step: gives the log-probabilities of one position.
        prompts: the rows.
        vocab: of the log-probabilities.
        options: how to choose ids.
        uniforms: [batch, beam, length] float32, see `SamplingLoop`; needed if options draw.
        first: int32 scalar, the first position that is computed, 0 if None; no prompt is shorter.
        caches: where prompts were read already, of each row for the position after its own; until
            then they stay.
    """
    if first is None:
        first = mtf.constant(prompts.mesh, 0, dtype=prompts.lengths.dtype)
    if options.is_beam_search:
        search = BeamSearch(step, prompts, vocab, options)
    else:
        search = SamplingLoop(step, prompts, vocab, options, uniforms)
    return search.run(first, caches or {})
