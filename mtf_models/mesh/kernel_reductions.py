"""Reductions in the form that XLA makes fast code of on a CPU, where it reduces rows one by one."""

from __future__ import annotations

import tensorflow as tf

_PARTS = 8
"""A power of two."""


def row_sum(value: tf.Tensor, axes: list[int]) -> tf.Tensor:
    """The sum over axes: over the last one by a product with ones, in vector instructions.

    Args:
        value: any number.
        axes: not negative, in order.
    """
    last = value.shape.rank - 1
    if last not in axes or not last or not value.dtype.is_floating:
        return tf.reduce_sum(value, axes)
    rows = tf.linalg.matvec(value, tf.ones([value.shape[last]], value.dtype))
    return tf.reduce_sum(rows, axes[:-1]) if axes[1:] else rows


def row_mean(value: tf.Tensor, axes: list[int]) -> tf.Tensor:
    """The mean over axes, see `row_sum`."""
    count = 1
    for axis in axes:
        count *= value.shape[axis]
    return row_sum(value, axes) / tf.cast(count, value.dtype)


def row_max(value: tf.Tensor, axes: list[int]) -> tf.Tensor:
    """The maximum over axes: first the larger elements of the parts of each row.

    Args:
        value: any number.
        axes: not negative, in order.
    """
    last = value.shape.rank - 1
    if last not in axes or value.shape[last] % _PARTS:
        return tf.reduce_max(value, axes)
    parts = tf.split(value, _PARTS, axis=last)
    while len(parts) > 1:
        parts = [tf.maximum(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return tf.reduce_max(parts[0], axes)
