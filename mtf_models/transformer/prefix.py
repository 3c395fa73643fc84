"""Rows of inputs, EOS, targets, EOS: what of them is inputs, and how it is seen from all of it.

Raffel et al. 2020, section 3.2.1 ("prefix LM").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Tensor, VariableDType
from mtf_models.transformer.context import PREFIX_REGION, Context
from mtf_models.transformer.embedding import Embedding
from mtf_models.transformer.sequences import EOS, autoregressive_inputs

if TYPE_CHECKING:
    from mtf_models.transformer.unitransformer import Unitransformer


def delimited_inputs_mask(ids: Tensor) -> Tensor:
    """Which positions belong to inputs, where a row is inputs, EOS, targets, EOS, inputs, ...

    Args:
        ids: [batch, length]; negative ids count as positive ones.

    Returns:
        [batch, length] bool: an even number of ends of sequence come before, and it is no padding.
    """
    length = ids.shape.get_dim_by_name("length")
    ends = mtf.to_int32(mtf.equal(mtf.abs(ids), EOS))
    even = mtf.equal(mtf.mod(mtf.cumsum(ends, length, exclusive=True), 2), 0)
    return mtf.logical_and(even, mtf.not_equal(ids, 0))


def prefix_region(ids: Tensor) -> Tensor:
    """Which positions see each other: those of the inputs, and the one that reads their end.

    Args:
        ids: [batch, length], see `delimited_inputs_mask`.

    Returns:
        [batch, length] bool.
    """
    length = ids.shape.get_dim_by_name("length")
    inputs = delimited_inputs_mask(ids)
    after = mtf.shift(mtf.to_int32(inputs), 1, length, wrap=False)
    return mtf.logical_or(inputs, mtf.greater(after, 0))


def prefix_priority(ids: Tensor) -> Tensor:
    """The priority of each position for attention: 0 in the prefix, else its place in the row.

    Args:
        ids: [batch, length], see `delimited_inputs_mask`.

    Returns:
        [batch, length] int32.
    """
    position = mtf.mtf_range(ids.mesh, ids.shape.get_dim_by_name("length"))
    return mtf.where(prefix_region(ids), 0, position, output_shape=ids.shape)


def read_prefix(
    stack: Unitransformer, embedding: Embedding, variable_dtype: VariableDType, prompt: Tensor
) -> dict[str, Tensor]:
    """What self-attention remembers of the prefixes of prompts, for `Context.constants`.

    Args:
        stack: sees all of a prefix.
        embedding: of the stack.
        variable_dtype: dtypes of the variables.
        prompt: [batch, length], as long as what is decoded.
    """
    length = prompt.shape.get_dim_by_name("length")
    memory = Dimension("memory_length", length.size)
    region = mtf.to_int32(prefix_region(prompt))
    context = Context(
        mesh=prompt.mesh,
        mode="eval",
        variable_dtype=variable_dtype,
        length_dim=length,
        memory_length_dim=memory,
        d_model=stack.d_model,
        position=mtf.mtf_range(prompt.mesh, length),
        autoregressive=True,
        input_full_attention=True,
        priority=prefix_priority(prompt),
        sequence_id=region,
        records_prefix=True,
    )
    stack.hidden(context, autoregressive_inputs(prompt, None), embedding)
    seen = mtf.rename_dimension(region, length.name, memory.name)
    return {**context.constants, PREFIX_REGION: seen}
