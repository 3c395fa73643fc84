"""Numbers that a graph holds once, however often its operations use them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

_names: WeakKeyDictionary[tf.Graph, dict[Hashable, str]] = WeakKeyDictionary()
"""Of the constants in each graph, by what they are; tensors would keep their graph alive."""


def shared_constant(number: Any, dtype: tf.DType) -> tf.Tensor:
    """A scalar constant, in a graph the same one for the same number.

    Tracing a model meets few numbers, many times each; a constant costs as much as a product.

    Args:
        number: of Python or NumPy.
        dtype: of the constant.
    """
    if tf.executing_eagerly():
        return tf.constant(number, dtype)
    graph = tf.compat.v1.get_default_graph()  # noqa: TID251  TensorFlow 2 has no other name for it.
    names = _names.setdefault(graph, {})
    key = repr(number), dtype  # Numbers that are equal need not be the same: 0.0 and -0.0.
    if key in names:
        return graph.get_tensor_by_name(names[key])
    with tf.control_dependencies(None):  # It is for whoever comes later too.
        made = tf.constant(number, dtype)
    names[key] = made.name
    return made
