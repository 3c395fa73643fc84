"""The engine of one device: plain TensorFlow, nothing in between."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_models.mesh import scopes
from mtf_models.mesh.engines.products import Operand, by_einsum, matrix_product
from mtf_models.mesh.layout import Layout

Slice = tuple[tuple[int, ...], np.ndarray]
"""Where a part of a tensor begins, and its values."""


def as_tensor(value: Any, dtype: tf.DType | None) -> tf.Tensor:
    """A TensorFlow tensor of an array or tensor, in its own dtype or another."""
    if tf.is_tensor(value) and dtype is not None:
        return tf.cast(value, dtype)
    return tf.convert_to_tensor(value, dtype=dtype)


class SingleEngine:
    """Holds every tensor whole on one device.

    Args:
        device: its name; None for the one that TensorFlow chooses.

    Attributes:
        stand_ins: False; sizes of batches are real.
        least_fused: how many elements make it worth while to hand a chain of operations over to
            a kernel of its own.
        kernels: those that were compiled, see `mesh.fused`.
        compiles_loops: whether XLA may compile loops; not where sizes, or the machine that a graph
            will run on, are unknown.
        writes_entries: whether one entry of a tensor can be written where it is.
    """

    stand_ins = False
    least_fused = 2**16
    writes_entries = True

    def __init__(self, device: str | None) -> None:
        self._device = device
        self.kernels: dict[Hashable, Any] = {}
        self.compiles_loops = device is not None

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Where operations run."""
        return tf.device(self._device)

    def locked(self) -> contextlib.AbstractContextManager[Any]:
        """Held around compiled calls; one device needs no lock."""
        return contextlib.nullcontext()

    def kernel(self, run: Callable[..., list[tf.Tensor]]) -> Callable[..., list[tf.Tensor]]:
        """A function of values, compiled by XLA."""

        def traced(*values: tf.Tensor) -> list[tf.Tensor]:
            with scopes.tracing_kernel():
                return run(*values)

        return tf.function(traced, jit_compile=True, autograph=False)

    def called(self, run: Callable[..., list[tf.Tensor]]) -> Callable[..., list[tf.Tensor]]:
        """A function of values that is traced once, and called wherever it is used."""
        return tf.function(run, autograph=False)

    def put(self, value: Any, layout: Layout, dtype: tf.DType | None = None) -> tf.Tensor:
        """Brings a host value to the device."""
        return as_tensor(value, dtype)

    def pin(self, value: tf.Tensor, layout: Layout) -> tf.Tensor:
        """Lays a value out; there is only one place here."""
        return value

    def product(self, a: tf.Tensor, b: tf.Tensor, terms: Sequence[str]) -> tf.Tensor:
        """The product of two values, given the letters of both and of the result.

        XLA takes an einsum as it is, and one that sums nothing is no product of matrices.
        """
        of_a, of_b, output = terms
        is_known = a.shape.is_fully_defined() and b.shape.is_fully_defined()
        if scopes.in_kernel() or not is_known or set(of_a + of_b) == set(output):
            return by_einsum(a, b, terms)
        return matrix_product(Operand(a, of_a), Operand(b, of_b), output)

    def argument(self, value: tf.Tensor) -> tf.Tensor:
        """A value for a compiled function to take."""
        return value

    def move(self, value: tf.Tensor, before: Layout, after: Layout) -> tf.Tensor:
        """Lays a value out anew; there is only one place here."""
        return value

    def make_variable(self, initial: tf.Tensor, layout: Layout, name: str) -> tf.Variable:
        """A variable that holds `initial`."""
        return tf.Variable(initial, trainable=False, name=name.replace("/", "_"))

    def fetch(self, value: tf.Tensor | tf.Variable) -> np.ndarray:
        """The whole value on the host."""
        return value.numpy()

    def slices(self, value: tf.Tensor, layout: Layout, turn: int = 0) -> Iterator[Slice]:
        """The distinct parts of a value, each once."""
        yield (0,) * value.shape.rank, value.numpy()
