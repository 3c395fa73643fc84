"""Rows of inputs, EOS, targets, EOS: what of them is inputs, and how it is seen from all of it.

Raffel et al. 2020, section 3.2.1 ("prefix LM").
"""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.mesh import Tensor
from mtf_models.transformer.sequences import EOS


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
