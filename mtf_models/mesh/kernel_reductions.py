"""Reductions in the form that XLA makes fast code of on a CPU, where it reduces rows one by one."""

from __future__ import annotations

import tensorflow as tf

_PARTS = 8
"""A power of two."""

_LEAST = 2**15
"""Fewer numbers are reduced faster within the kernel than by a product that it must call."""


def row_sum(value: tf.Tensor, axes: list[int]) -> tf.Tensor:
    """The sum over axes: over the last one by a product with ones, in vector instructions.

    Args:
        value: any number.
        axes: not negative, in order.
    """
    last = value.shape.rank - 1
    small = (value.shape.num_elements() or 0) < _LEAST
    if last not in axes or not last or not value.dtype.is_floating or small:
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


def row_logsumexp(value: tf.Tensor, axis: int) -> tf.Tensor:
    """The logarithm of the sum of exponentials over an axis, without overflow.

    Args:
        value: any floating number.
        axis: not negative.
    """
    peak = row_max(value, [axis])
    peak = tf.where(tf.math.is_finite(peak), peak, tf.zeros_like(peak))
    return tf.math.log(row_sum(tf.exp(value - tf.expand_dims(peak, axis)), [axis])) + peak


def row_argmax(value: tf.Tensor, axis: int) -> tf.Tensor:
    """The index of the largest element along an axis, int32; the first on ties.

    Args:
        value: any number but NaN.
        axis: not negative; fewer than 2^24 elements, which float32 can count.
    """
    count = value.shape[axis]
    to_come = tf.range(count, 0, -1, dtype=tf.float32)
    to_come = tf.reshape(to_come, [count] + [1] * (value.shape.rank - 1 - axis))
    largest = tf.equal(value, tf.expand_dims(row_max(value, [axis]), axis))
    found = row_max(tf.where(largest, to_come, 0.0), [axis])
    return count - tf.cast(found, tf.int32)
