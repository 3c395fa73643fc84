"""Which positions attention may see: masks that are added to its logits."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.layers.attention import MASKED
from mtf_models.mesh import Tensor
from mtf_models.transformer.context import Context


def visibility_bias(context: Context) -> Tensor | None:
    """Masks of self-attention, float32: the future, and other sequences of a packed row."""
    bias = None
    if context.autoregressive:
        write, read = context.write_priority, context.read_priority
        shape = read.shape + [d for d in write.shape if d not in read.shape]
        bias = mtf.to_float(mtf.greater(write, read, output_shape=shape)) * MASKED
    if context.sequence_id is not None and not context.incremental:
        other = _differs(context.sequence_id, context.memory_sequence_id)
        bias = other if bias is None else other + bias
    return bias


def encoder_visibility_bias(context: Context) -> Tensor | None:
    """The mask of attention to the encoder, float32: sequences see their own inputs only."""
    if context.encoder_sequence_id is None:
        return None
    if (
        context.incremental or context.prefilling
    ):  # one sequence a row, whose encoder side is 1 and padding 0
        return mtf.to_float(mtf.not_equal(context.encoder_sequence_id, 1)) * MASKED
    if context.sequence_id is None:
        return None
    return _differs(context.sequence_id, context.encoder_sequence_id)


def _differs(sequence_id: Tensor, memory_id: Tensor) -> Tensor:
    shape = sequence_id.shape + [d for d in memory_id.shape if d not in sequence_id.shape]
    return mtf.to_float(mtf.not_equal(sequence_id, memory_id, output_shape=shape)) * MASKED
