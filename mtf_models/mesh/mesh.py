"""A mesh: named axes of devices, and the rules that lay tensors out over them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_models import processes
from mtf_models.errors import LayoutError, ShapeError
from mtf_models.mesh import devices as device_list
from mtf_models.mesh import scopes
from mtf_models.mesh.dimension import Dimension, Shape, ShapeLike
from mtf_models.mesh.engines.dtensor import DTensorEngine
from mtf_models.mesh.engines.recorder import RecorderEngine
from mtf_models.mesh.engines.single import SingleEngine
from mtf_models.mesh.layout import (
    Layout,
    LayoutRules,
    RulesLike,
    layout_faults,
    raise_faults,
    tensor_layout,
)

Engine = SingleEngine | DTensorEngine | RecorderEngine


class Mesh:
    """An array of devices with named axes, and the layout rules that belong to it.

    `Mesh("batch:2;model:4", layout="batch:batch,heads:model,d_ff:model,vocab:model")` splits the
    dimension `batch` of every tensor in two and `heads`, `d_ff` and `vocab` in four. `Mesh()` is
    one device. Devices are looked for when the first value is put on the mesh, so a mesh of any
    size can be planned for without them.

    Args:
        shape: the axes and their sizes, as text, pairs or mapping; empty for one device.
        layout: the layout rules, as text, pairs or mapping.
        devices: names such as "GPU:0" or TensorFlow's logical devices, one for each part; by
            default all accelerators, or with none the CPU, made into as many virtual devices as
            the mesh needs.

    Raises:
        LayoutError: if a dimension is sent to two axes, or a text cannot be read.
        DeviceError: if a named device is absent or occurs twice, or their number is wrong.
    """

    def __init__(
        self,
        shape: ShapeLike = "",
        layout: RulesLike = "",
        devices: Sequence[str | tf.config.LogicalDevice] | None = None,
    ) -> None:
        try:
            self.shape = Shape(shape)
        except ShapeError as error:
            raise LayoutError(f"Cannot read the mesh. {error}") from None
        self.rules = LayoutRules(layout)
        self.axes: dict[str, int] = {d.name: d.size for d in self.shape}
        self._named_devices = device_list.names(devices)
        self._engine: Engine | None = None
        self._layouts: dict[tuple[Shape, frozenset[Dimension]], Layout] = {}
        if self._named_devices is not None:
            device_list.check_named(self.size, self._named_devices)

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.shape.size

    @property
    def devices(self) -> list[str]:
        """The names of the devices, in the order of the mesh."""
        return device_list.choose(self.size, self._named_devices)

    @property
    def engine(self) -> Engine:
        """What holds the tensors; made, and devices looked for, at the first call."""
        if self._engine is None:
            device_names = self.devices
            if self.size == 1:
                self._engine = SingleEngine(device_names[0])
            else:
                self._engine = DTensorEngine(self.axes, device_list.own_part(device_names))
        return self._engine

    def is_same(self, other: Mesh) -> bool:
        """Whether tensors of the two can be mixed: equal axes, rules and devices."""
        if self is other:
            return True
        mine, others = (
            (m.shape, m.rules, m._named_devices, isinstance(m._engine, RecorderEngine))
            for m in (self, other)
        )
        return mine == others

    def abstract(self, stand_ins: bool = False, notes: bool = False, abridges: bool = True) -> Mesh:
        """The same axes and rules without devices, for the abstract pass.

        Args:
            stand_ins: whether sizes of batches are made up there.
            notes: whether layouts are noted there, for a recording.
            abridges: whether of parts that are alike one may stand for others.
        """
        mesh = Mesh(self.shape, self.rules)
        mesh._engine = RecorderEngine(stand_ins, notes, abridges)
        return mesh

    @classmethod
    def unplaced(cls) -> Mesh:
        """One device: whichever there is where a graph runs that is traced here."""
        mesh = cls()
        mesh._engine = SingleEngine(None)
        return mesh

    def leaves_out(self, name: str) -> bool:
        """Whether a variable belongs to what an abstract pass left out, see `stands_for`."""
        return self.is_abstract and self.engine.leaves_out(name)

    @property
    def is_abstract(self) -> bool:
        """Whether nothing is computed here, and tensors have no values."""
        return isinstance(self._engine, RecorderEngine)

    def layout(self, shape: Shape, whole: Iterable[Dimension] = ()) -> Layout:
        """For each dimension the axis that it is split over, or None.

        Args:
            shape: the named shape.
            whole: dimensions that must not be split, whatever the rules say.

        Raises:
            LayoutError: if a size does not divide, or two dimensions are on one axis; the abstract
                pass collects these faults instead, to list all at once.
        """
        key = shape, frozenset(whole)
        if key not in self._layouts:
            axes = tensor_layout(shape, self.rules, self.axes)
            layout = tuple(None if d in key[1] else a for d, a in zip(shape, axes, strict=True))
            self.report_faults(shape, layout)
            if isinstance(self._engine, RecorderEngine):
                return layout
            self._layouts[key] = layout
        return self._layouts[key]

    def report_faults(self, shape: Shape, layout: Layout, name: str | None = None) -> None:
        """Raises the faults of one tensor's layout, or collects them in the abstract pass."""
        faults = layout_faults(shape, layout, self.axes, name or scopes.current_place())
        if isinstance(self._engine, RecorderEngine):
            self._engine.faults.extend(faults)
        else:
            raise_faults(faults, self.rules, self.axes)

    def check(self, shape: Shape, name: str) -> None:
        """Reports, under `name`, why a tensor of this shape cannot be laid out."""
        self.report_faults(shape, tensor_layout(shape, self.rules, self.axes), name)

    def refuse_split(self, message: str) -> None:
        """Refuses a split of the batch, unless the batch is made up.

        Raises:
            LayoutError: with this message.
        """
        if not self.engine.stand_ins:
            raise LayoutError(message)

    def splits(self, dimension: Dimension) -> int:
        """Into how many parts tensors are split along `dimension`."""
        (axis,) = tensor_layout(Shape([dimension]), self.rules, self.axes)
        return self.axes[axis] if axis else 1

    def own_places(self, dimension: Dimension) -> list[int]:
        """The places along `dimension` that devices of this process hold, in order."""
        (axis,) = tensor_layout(Shape([dimension]), self.rules, self.axes)
        group = processes.current()
        if axis is None or group.count == 1:
            return list(range(dimension.size))
        devices = self.size // group.count
        coordinates = list(np.ndindex(*self.axes.values()))
        own = coordinates[group.index * devices : (group.index + 1) * devices]
        parts = sorted({at[list(self.axes).index(axis)] for at in own})
        each = dimension.size // self.axes[axis]
        return [place for part in parts for place in range(part * each, (part + 1) * each)]

    def share_an_axis(self, first: Dimension, second: Dimension) -> bool:
        """Whether two dimensions are split over the same devices, so no tensor can have both."""
        one, other = tensor_layout(Shape([first, second]), self.rules, self.axes)
        return one is not None and one == other

    def pin(self, value: tf.Tensor, shape: Shape, whole: Iterable[Dimension] = ()) -> tf.Tensor:
        """Lays a global value out by the rules, the dimensions `whole` left unsplit.

        Args:
            value: a tensor whose axes are the dimensions of `shape`.
            shape: the named shape.
            whole: dimensions that must not be split.
        """
        if self.size == 1:
            return value
        return self.engine.pin(value, self.layout(shape, whole))

    @contextlib.contextmanager
    def running(self, operation: str) -> Iterator[bool]:
        """Around an operation: names it for messages and enters the engine's scope once.

        Yields:
            Whether it is the outermost one.
        """
        with scopes.running(operation) as outermost:
            if outermost:
                with self.engine.scope():
                    yield True
            else:
                yield False

    @contextlib.contextmanager
    def composing(
        self, operation: str, inputs: list[Shape], outputs: list[Shape]
    ) -> Iterator[None]:
        """Around operations that make up one with a derivative of its own.

        They run as one; a recording notes each.

        Args:
            operation: its name.
            inputs: the shapes of what it takes.
            outputs: those of its results, known at the end.
        """
        with self.running(operation) as outermost:
            if not self.is_abstract:
                yield
                return
            number = len(self.engine.operations) - 1
            with scopes.outermost():
                yield
            if outermost:
                self.engine.note(inputs, outputs, number)

    @contextlib.contextmanager
    def composing_backward(self, operation: str, scope: str) -> Iterator[None]:
        """The same around its derivative.

        Args:
            operation: its name.
            scope: the variable scope that the operation itself ran in.
        """
        if not self.is_abstract:
            with self.running(operation):
                yield
            return
        with scopes.entered(scope), scopes.outermost(), self.engine.backward():
            yield

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Around a call of a compiled function on this mesh."""
        with self.engine.locked(), self.engine.scope():
            yield

    def __str__(self) -> str:
        return ",".join(f"{name}:{size}" for name, size in self.axes.items()) or "one device"

    def __repr__(self) -> str:
        return f"Mesh({str(self)!r}, layout={str(self.rules)!r})"

    def describe(self) -> dict[str, Any]:
        """The mesh as plain data, for run folders."""
        return {"mesh": str(self), "layout": str(self.rules), "devices": self.devices}
