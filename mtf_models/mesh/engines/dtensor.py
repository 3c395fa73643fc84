"""The engine of many devices: DTensor expands each global operation and adds the collectives."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from mtf_models import processes
from mtf_models.errors import DeviceError
from mtf_models.mesh.engines.moving import moved
from mtf_models.mesh.engines.products import by_einsum
from mtf_models.mesh.engines.single import Slice, as_tensor
from mtf_models.mesh.layout import Layout

# Concurrent calls of compiled functions over a mesh bring the process down.
_calls = threading.RLock()

# DTensor takes small arguments of these dtypes (in TensorFlow 2.21, of less than 20 elements) for
# constants of the function that is called, and expands it once more when they change.
_FOLDED = {tf.float32: tf.uint32, tf.int32: tf.uint32, tf.int64: tf.uint64}
_SMALL = 64


@functools.cache
def _device_mesh(axes: tuple[tuple[str, int], ...], devices: tuple[str, ...]) -> dtensor.Mesh:
    """One mesh for equal arguments: each new one costs some 5 MB that are never freed."""
    if processes.current().count > 1:
        return dtensor.create_distributed_mesh(list(axes), local_devices=list(devices))
    return dtensor.create_mesh(list(axes), devices=list(devices))


class DTensorEngine:
    """Holds every tensor split over a mesh as its layout says, replicated elsewhere.

    A mesh may span several processes, all of which make the same calls in the same order, each
    from one thread. A host value that they put is the same in all of them, or at least right in
    what the devices of each receive.

    Attributes:
        stand_ins: False; sizes of batches are real.
        least_fused: none are; DTensor expands single operations.
        called: None; calls of functions are not what layouts are known of.
        compiles_loops: False; DTensor expands single operations.
        writes_entries: False; DTensor writes whole tensors.

    Args:
        axes: of the mesh, with their sizes.
        devices: those of this process, in the order of the mesh.
    """

    stand_ins = False
    least_fused = math.inf
    called = None
    compiles_loops = False
    writes_entries = False

    def __init__(self, axes: Mapping[str, int], devices: list[str]) -> None:
        self._axes = dict(axes)
        self._mesh = _device_mesh(tuple(axes.items()), tuple(devices))
        first = processes.current().index * len(devices)
        self._own = slice(first, first + len(devices))
        self._thread = threading.get_ident() if processes.current().count > 1 else None

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Puts constants of the operations inside on the mesh."""
        return dtensor.default_mesh(self._mesh)

    def locked(self) -> contextlib.AbstractContextManager[Any]:
        """Held around compiled calls, which must not overlap.

        Raises:
            DeviceError: if it is another thread's turn, of several processes.
        """
        if self._thread not in (None, threading.get_ident()):
            raise DeviceError(
                "Of several processes each must call its models from one thread, or they would "
                "come in different orders and wait for each other for ever: call from the thread "
                "that used the mesh first."
            )
        return _calls

    def put(self, value: Any, layout: Layout, dtype: tf.DType | None = None) -> tf.Tensor:
        """Lays a host value out, each device receiving its part only."""
        if not tf.executing_eagerly() or tf.is_tensor(value) and dtensor.is_dtensor(value):
            return self.pin(as_tensor(value, dtype), layout)
        with tf.device("CPU:0"):
            whole = as_tensor(value, dtype)
        if all(axis is None for axis in layout):
            return dtensor.copy_to_mesh(whole, self._layout(layout))
        parts: dict[tuple[int, ...], tf.Tensor] = {}
        order = self._begins(whole.shape, layout)[self._own]
        with tf.device("CPU:0"):
            for begin in order:
                if begin not in parts:
                    parts[begin] = tf.slice(whole, begin, self._sizes(whole.shape, layout))
        return dtensor.pack([parts[begin] for begin in order], self._layout(layout))

    def pin(self, value: tf.Tensor, layout: Layout) -> tf.Tensor:
        """Lays a value out; in a compiled function also stops layouts from spreading past it."""
        return dtensor.relayout(value, self._layout(layout))

    def product(self, a: tf.Tensor, b: tf.Tensor, terms: Sequence[str]) -> tf.Tensor:
        """The product of two values, whose parts DTensor multiplies and sums."""
        return by_einsum(a, b, terms)

    def argument(self, value: tf.Tensor) -> tf.Tensor:
        """A value for a compiled function to take, of the same bits, maybe of another dtype.

        Were it taken for a constant, other values of it would compile the function again; and
        that fails if there is a loop in it, whose functions have their names from the first time.
        """
        small = value.dtype in _FOLDED and value.shape.num_elements() <= _SMALL
        return tf.bitcast(value, _FOLDED[value.dtype]) if small else value

    def move(self, value: tf.Tensor, before: Layout, after: Layout) -> tf.Tensor:
        """Lays a value out anew where a split may go from one of its axes to another."""
        return moved(value, before, after, self.pin)

    def make_variable(self, initial: tf.Tensor, layout: Layout, name: str) -> dtensor.DVariable:
        """A variable that holds `initial` in its layout."""
        return dtensor.DVariable(initial, trainable=False, name=name.replace("/", "_"))

    def fetch(self, value: tf.Tensor | tf.Variable) -> np.ndarray:
        """The whole value on the host."""
        with self.scope():
            value = tf.convert_to_tensor(value)
            whole = dtensor.relayout(value, self._layout((None,) * value.shape.rank))
            return dtensor.unpack(whole)[0].numpy()

    def slices(self, value: tf.Tensor, layout: Layout, turn: int = 0) -> Iterator[Slice]:
        """The distinct parts of a value, each once, from one of the devices that hold it.

        Of several processes each has those of its own devices.

        Args:
            value: on the mesh.
            layout: of the value.
            turn: which of the devices that hold the same give it: with other numbers others.
        """
        begins = self._begins(value.shape, layout)
        holders: dict[tuple[int, ...], list[int]] = {}
        for place, begin in enumerate(begins):
            holders.setdefault(begin, []).append(place)
        chosen = {all_[(turn + i) % len(all_)] for i, all_ in enumerate(holders.values())}
        with self.scope():
            parts = dtensor.unpack(tf.convert_to_tensor(value))
        for place, part in zip(range(*self._own.indices(len(begins))), parts, strict=True):
            if place in chosen:
                yield begins[place], part.numpy()

    def _layout(self, layout: Layout) -> dtensor.Layout:
        return dtensor.Layout([axis or dtensor.UNSHARDED for axis in layout], self._mesh)

    def _sizes(self, shape: tf.TensorShape, layout: Layout) -> list[int]:
        parts = [self._axes[axis] if axis else 1 for axis in layout]
        return [size // n for size, n in zip(shape, parts, strict=True)]

    def _begins(self, shape: tf.TensorShape, layout: Layout) -> list[tuple[int, ...]]:
        """Where the part of each device begins, in the order of the mesh."""
        sizes = self._sizes(shape, layout)
        begins = []
        for coordinates in np.ndindex(*self._axes.values()):
            at = dict(zip(self._axes, coordinates, strict=True))
            begins.append(
                tuple(at[axis] * n if axis else 0 for axis, n in zip(layout, sizes, strict=True))
            )
        return begins
