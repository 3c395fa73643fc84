"""Values of a graph that are known before it runs: of shapes, axes and permutations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "AddV2": np.add,
    "ConcatV2": lambda *xs: np.concatenate([np.atleast_1d(x) for x in xs[:-1]], int(xs[-1])),
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Identity": np.asarray,
    "InvertPermutation": np.argsort,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mul": np.multiply,
    "Pack": lambda *xs: np.stack(xs),
    "Prod": lambda x, axis: np.prod(x, axis=tuple(np.atleast_1d(axis))),
    "Range": np.arange,
    "Reshape": np.reshape,
    "Sub": np.subtract,
}


def known_value(x: tf.Tensor) -> np.ndarray | None:
    """The value of a symbolic tensor, or None if it depends on what goes into the graph.

    TensorFlow's own `tf.get_static_value` knows some of the operations that gradients make of
    permutations and axes.
    """
    found = tf.get_static_value(x)
    if found is not None or x.op.type not in _FUNCTIONS:
        return found
    operands = [known_value(y) for y in x.op.inputs]
    if any(operand is None for operand in operands):
        return None
    return _FUNCTIONS[x.op.type](*operands)
