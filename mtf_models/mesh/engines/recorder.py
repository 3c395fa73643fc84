"""The engine of the abstract pass: nothing is held, and faults of layout are collected."""

from __future__ import annotations

import contextlib
import math
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from mtf_models.errors import ShapeError
from mtf_models.mesh.engines.single import as_tensor
from mtf_models.mesh.layout import Fault, Layout


class RecorderEngine:
    """Runs a model symbolically in a `tf.Graph`, whatever mesh it is meant for.

    Args:
        stand_ins: whether sizes of batches are made up.

    Attributes:
        least_fused: no chain of operations is; all are recorded.
    """

    least_fused = math.inf

    def __init__(self, stand_ins: bool = False) -> None:
        self.stand_ins = stand_ins
        self.faults: list[Fault] = []

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """No device takes part."""
        return contextlib.nullcontext()

    locked = scope

    def put(self, value: Any, layout: Layout, dtype: tf.DType | None = None) -> tf.Tensor:
        """A constant of the graph."""
        return as_tensor(value, dtype)

    def pin(self, value: tf.Tensor, layout: Layout) -> tf.Tensor:
        """Leaves a symbolic value as it is."""
        return value

    def move(self, value: tf.Tensor, before: Layout, after: Layout) -> tf.Tensor:
        """Leaves a symbolic value as it is."""
        return value

    def make_variable(self, initial: tf.Tensor, layout: Layout, name: str) -> NoReturn:
        """Refuses: the abstract pass allocates nothing."""
        raise ShapeError(f"Variable {name} cannot be allocated in an abstract pass.")

    def fetch(self, value: tf.Tensor) -> np.ndarray:
        """Refuses: a symbolic tensor has no value."""
        raise ShapeError("A tensor of an abstract pass has no value; run the model to get one.")
