"""TensorFlow functions with a derivative of their own, forgotten with the graph they are in."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable

import tensorflow as tf

Backward = Callable[..., list[tf.Tensor | None]]
"""Takes the gradient of each result; returns one for each argument."""

Differentiated = Callable[..., tuple[list[tf.Tensor], Backward]]
"""Takes values; returns results, and the function from their gradients to those of the values."""

_KEPT = "mtf_models/own_gradients"


def with_own_gradient(function: Differentiated) -> Callable[..., list[tf.Tensor]]:
    """As `tf.custom_gradient`, but what is traced into a graph goes when the graph does.

    TensorFlow keeps a derivative of each such call in a graph for as long as the process lives,
    and with it the results, so the whole graph. Here it keeps an empty shell.
    """

    @functools.wraps(function)
    def call(*values: tf.Tensor) -> list[tf.Tensor]:
        if tf.executing_eagerly():
            return tf.custom_gradient(function)(*values)
        held: list[tf.Tensor] = []

        def traced(*values: tf.Tensor) -> tuple[list[tf.Tensor], Backward]:
            results, backward = function(*values)
            held.extend(results)
            return held, _kept_by(results[0].graph, backward)

        results = tf.custom_gradient(traced)(*values)
        held[:] = [_stand_in()] * len(held)
        return results

    return call


def _kept_by(graph: tf.Graph, backward: Backward) -> Backward:
    """A function that calls another one, which lives as long as the graph."""
    graph.add_to_collection(_KEPT, backward)
    reference = weakref.ref(backward)
    return lambda *dys: reference()(*dys)


@functools.cache
def _stand_in() -> tf.Tensor:
    """In the place of a result of which TensorFlow asks only that it is a tensor."""
    with tf.init_scope():
        return tf.constant(0.0)
