"""What attention must not see, as numbers added to its logits: 0, or -1e9 where hidden."""

from __future__ import annotations

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.layers.attention import MASKED
from mtf_models.mesh import Dimension, Mesh, Tensor

LENGTH, MEMORY_LENGTH = "length", "memory_length"


def rename_length_to_memory_length(x: Tensor) -> Tensor:
    """The dimension `length` called `memory_length`."""
    return mtf.rename_dimension(x, LENGTH, MEMORY_LENGTH)


def hidden_where(condition: Tensor, dtype: tf.DType = tf.float32) -> Tensor:
    """-1e9 where a condition holds, else 0.

    Args:
        condition: bool.
        dtype: of the result.
    """
    return mtf.cast(condition, dtype) * MASKED


def attention_mask_ignore_padding(inputs: Tensor, dtype: tf.DType = tf.float32) -> Tensor:
    """Hides memory positions whose id is 0.

    Args:
        inputs: [..., length], integers.
        dtype: of the result.

    Returns:
        [..., memory_length].
    """
    return hidden_where(mtf.equal(rename_length_to_memory_length(inputs), 0), dtype)


def attention_mask_autoregressive(query_pos: Tensor, dtype: tf.DType = tf.float32) -> Tensor:
    """Hides memory positions beyond the query's.

    Args:
        query_pos: [..., length], integers.
        dtype: of the result.

    Returns:
        [..., length, memory_length].
    """
    memory_pos = rename_length_to_memory_length(query_pos)
    return hidden_where(mtf.less(query_pos, memory_pos), dtype)


def attention_mask_same_segment(
    query_segment: Tensor, memory_segment: Tensor | None = None, dtype: tf.DType = tf.float32
) -> Tensor:
    """Hides memory positions of another segment than the query's.

    Args:
        query_segment: [..., length], integers.
        memory_segment: [..., memory_length], by default that of the query.
        dtype: of the result.

    Returns:
        [..., length, memory_length].
    """
    if memory_segment is None:
        memory_segment = rename_length_to_memory_length(query_segment)
    return hidden_where(mtf.not_equal(query_segment, memory_segment), dtype)


def attention_bias_local_block(
    mesh: Mesh, block_length: Dimension, memory_length: Dimension, dtype: tf.DType = tf.float32
) -> Tensor:
    """Hides from each position of a block the ones to its right.

    The memory ends where the block ends: its last `block_length` positions are the block's own.

    Args:
        mesh: where.
        block_length: positions of a block.
        memory_length: positions that the block sees, at least its own.
        dtype: of the result.

    Returns:
        [block_length, memory_length].
    """
    query = mtf.mtf_range(mesh, block_length) + (memory_length.size - block_length.size)
    return hidden_where(mtf.less(query, mtf.mtf_range(mesh, memory_length)), dtype)


def attention_bias_local_2d_block(
    mesh: Mesh,
    h_dim: Dimension,
    w_dim: Dimension,
    memory_h_dim: Dimension,
    memory_w_dim: Dimension,
    dtype: tf.DType = tf.float32,
) -> Tensor:
    """Hides from each pixel of a block the pixels of later rows, and of its row to the right.

    The memory ends where the block ends, in both directions.

    Args:
        mesh: where.
        h_dim: rows of a block.
        w_dim: columns of a block.
        memory_h_dim: rows that the block sees, at least its own.
        memory_w_dim: columns that it sees, at least its own.
        dtype: of the result.

    Returns:
        [h, w, memory_h, memory_w].
    """
    row = mtf.mtf_range(mesh, h_dim) + (memory_h_dim.size - h_dim.size)
    column = mtf.mtf_range(mesh, w_dim) + (memory_w_dim.size - w_dim.size)
    memory_row, memory_column = (mtf.mtf_range(mesh, d) for d in (memory_h_dim, memory_w_dim))
    shape = [h_dim, w_dim, memory_h_dim, memory_w_dim]
    right = mtf.logical_and(mtf.equal(row, memory_row), mtf.less(column, memory_column))
    hidden = mtf.logical_or(mtf.less(row, memory_row), right)
    return mtf.transpose(hidden_where(hidden, dtype), shape)
