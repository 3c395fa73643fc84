"""The three dtypes of a variable."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import tensorflow as tf

from mtf_models.errors import ConfigError

DTypeLike: TypeAlias = tf.DType | str


class VariableDType(NamedTuple):
    """What a variable is written, kept and computed in.

    Attributes:
        master: the dtype in checkpoints.
        slice: the dtype that a device keeps and the optimizer updates.
        activation: the dtype that `get_variable` returns.
    """

    master: tf.DType = tf.float32
    slice: tf.DType = tf.float32
    activation: tf.DType = tf.float32


def convert_to_variable_dtype(value: VariableDType | DTypeLike) -> VariableDType:
    """One dtype for all three, or a `VariableDType` as it is."""
    if isinstance(value, VariableDType):
        return VariableDType(*map(as_dtype, value))
    return VariableDType(*[as_dtype(value)] * 3)


def as_dtype(value: DTypeLike) -> tf.DType:
    """A TensorFlow dtype of its name.

    Raises:
        ConfigError: if there is no such dtype.
    """
    try:
        return tf.as_dtype(value)
    except TypeError:
        raise ConfigError(
            f'No dtype is called {value!r}; write for example "float32" or "bfloat16".'
        ) from None
