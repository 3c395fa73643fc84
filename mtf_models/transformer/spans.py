"""How far apart a target and an input are, when the targets fill gaps in the inputs."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.mesh import Dimension, Tensor
from mtf_models.transformer.context import Context


@configurable(module="mesh_tensorflow.transformer.transformer_layers")
def relative_position_spans(context: Context, num_sentinels: int = REQUIRED) -> Tensor:
    """The place of the gap that a target fills, relative to each input.

    In span corruption (Raffel et al. 2020, section 3.1.4) the inputs have a sentinel for each gap,
    and the targets a sentinel before what fills it. A target of the k-th gap counts as standing
    where the k-th sentinel of its inputs stands, and before the first gap at their beginning. As
    in the original, which trained checkpoints depend on, padding counts as standing before all.

    Args:
        context: of a decoder.
        num_sentinels: how many of the last ids are sentinels.

    Returns:
        [batch, length, memory_length] int32, or [batch, beam, length, memory_length] where several
        hypotheses of a row are decoded.
    """
    first = context.vocab_size - num_sentinels
    length, memory_length = context.length_dim, context.encoder_length_dim
    more = length.size + memory_length.size  # than there are gaps in a row
    gap_of_target = context.split_hypotheses(_gaps_so_far(context, first))
    marks = mtf.to_int32(mtf.greater_equal(context.encoder_inputs, first))
    gap_of_input = mtf.cumsum(marks, memory_length)
    if context.encoder_sequence_id is not None:
        own = 1 if context.sequence_id is None else context.sequence_id
        gap_of_target += own * more
        gap_of_input += context.encoder_sequence_id * more
    shape = gap_of_target.shape + memory_length
    before = mtf.to_int32(mtf.less(gap_of_input, gap_of_target, output_shape=shape))
    place = mtf.reduce_sum(before, reduced_dim=memory_length)
    return mtf.sub(place, mtf.mtf_range(context.mesh, memory_length), output_shape=shape)


def _gaps_so_far(context: Context, first: int) -> Tensor:
    """[batch, length] int32, up to each target; when decoding, a cache counts them."""
    if context.whole is not None:
        gaps = _gaps_so_far(context.whole, first)
        return mtf.slice(gaps, context.begin, context.length_dim.size, context.length_dim.name)
    begun = mtf.to_int32(mtf.greater_equal(context.inputs, first))
    key = "gaps of relative_position_spans"
    if not context.incremental:
        gaps = mtf.cumsum(begun, context.length_dim)
        if context.prefilling:
            one = Dimension(context.length_dim.name, 1)
            last = mtf.reshape(context.prompt_lengths - 1, context.prompt_lengths.shape + one)
            context.caches[key] = mtf.gather(gaps, last, context.length_dim)
        return gaps

    def count() -> Tensor:
        before = context.caches.get(key)
        context.caches[key] = begun if before is None else before + begun
        return context.caches[key]

    return context.once(key, count)
