"""Recording a program, and reading the record: operations, bytes, exchanges."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from mtf_models.errors import ShapeError
from mtf_models.mesh.dimension import Shape, ShapeLike, convert_to_shape
from mtf_models.mesh.dtype import DTypeLike, as_dtype
from mtf_models.mesh.engines.recorder import Noted, Repeat
from mtf_models.mesh.gradient import gradients as gradients_of
from mtf_models.mesh.layout import Layout, raise_faults
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.random import RandomStream, random_stream
from mtf_models.mesh.recording.collectives import Collective, collectives_of
from mtf_models.mesh.recording.flops import flops_of, flops_on_device
from mtf_models.mesh.recording.memory import Memory, memory_of
from mtf_models.mesh.recording.phases import Key, Phase
from mtf_models.mesh.recording.program import Node, Program, Value, read
from mtf_models.mesh.recording.propagation import layouts_of
from mtf_models.mesh.recording.unrolling import Counted, unrolled
from mtf_models.mesh.tensor import Tensor
from mtf_models.mesh.variable import VariableStore


class Exchange(NamedTuple):
    """What devices exchange for an operation.

    Attributes:
        kind: "all-reduce", "all-gather", "all-to-all" or "reduce-scatter".
        axes: the mesh axes along which they lie.
        bytes: of the tensor on each device: of an all-gather the result, of others the operand.
    """

    kind: str
    axes: tuple[str, ...]
    bytes: int


class Operation(NamedTuple):
    """One operation of the language in a recorded program, forward or backward.

    Attributes:
        place: the variable scope and the name of the operation; what the gradient adds up by
            itself is called "gradient".
        phase: "forward", "backward" or "update".
        inputs: the shapes of the tensors that it takes forward.
        outputs: the shapes of its results forward.
        flops: of its products, on all devices together as if nothing were computed twice.
        exchanges: what devices exchange for it.
    """

    place: str
    phase: str
    inputs: list[Shape]
    outputs: list[Shape]
    flops: int
    exchanges: list[Exchange]


class HeldVariable(NamedTuple):
    """A weight or slot.

    Attributes:
        name: its name in checkpoints.
        layout: the axis over which each dimension is split, or None.
        bytes: on each device.
    """

    name: str
    layout: Layout
    bytes: int


class Recording:
    """What a program computes, holds and communicates on a mesh, without having run.

    Made by `mtf.record` and `mtf.record_step`.

    Attributes:
        mesh: the mesh that it is meant for; its devices are not looked for.
        operations: in the order in which they run.
        variables: what is held from step to step.
        memory: the bytes on each device.
        flops_on_device: of the products, on each device.
        largest: the bytes of the largest tensor on each device.
    """

    def __init__(
        self, mesh: Mesh, program: Program, noted: list[Noted], repeats: Sequence[Repeat] = ()
    ) -> None:
        self.mesh = mesh
        layouts = layouts_of(program, mesh.axes)
        exchanges = collectives_of(program, layouts, mesh.axes)
        counted = Counted(program, noted, layouts, exchanges)
        for repeat in repeats:
            counted = unrolled(counted, repeat)
        program, noted, layouts, exchanges = counted
        self.memory: Memory = memory_of(program, layouts, mesh.axes, exchanges, noted)
        self.flops_on_device = sum(flops_on_device(n, layouts, mesh.axes) for n in program.nodes)
        self.largest = max(_bytes(n, layouts, mesh.axes) for n in program.nodes)
        self.operations = _operations(program, noted, exchanges)
        self.variables = [
            HeldVariable(a.name, a.layout, _bytes(program.nodes[i], layouts, mesh.axes))
            for i, a in program.arguments.items()
            if a.is_variable
        ]

    @property
    def flops(self) -> int:
        """The multiplications and additions of all products."""
        return sum(operation.flops for operation in self.operations)

    @property
    def exchanged(self) -> dict[tuple[str, tuple[str, ...]], int]:
        """The bytes that each device exchanges, by kind and mesh axes."""
        total: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for operation in self.operations:
            for exchange in operation.exchanges:
                total[exchange.kind, exchange.axes] += exchange.bytes
        return dict(total)

    def fits(self, bytes_of_device: float) -> str:
        """A line that says whether devices of a size can run the program, and else what to try.

        Args:
            bytes_of_device: what one device has for it.
        """
        held, peak = self.memory.variables, self.memory.peak
        parts = f"{_gigabytes(held)} of variables, {_gigabytes(peak - held)} of values in between"
        need = f"each device needs {_gigabytes(peak)}: {parts}"
        if peak <= bytes_of_device:
            return f"fits in {_gigabytes(bytes_of_device)}: {need}"
        advice = ["split more dimensions, or over a larger mesh"]
        if held <= bytes_of_device:
            advice += ["take a smaller batch or micro-batches", "recompute layers for gradients"]
        else:
            advice += ["take Adafactor, whose slots are small"]
        tries = ", or ".join(advice)
        return f"does not fit in {_gigabytes(bytes_of_device)}: {need}; try to {tries}"


def record(
    function: Callable[..., Any],
    inputs: Mapping[str, ShapeLike | tuple[ShapeLike, DTypeLike]],
    mesh: Mesh,
    gradients: bool = False,
) -> Recording:
    """Runs a function of named tensors without computing or allocating anything.

    Args:
        function: takes the inputs by name and returns tensors, nested in lists and mappings. It
            may ask for variables and random numbers.
        inputs: the shape of each input, float32, or its shape and dtype.
        mesh: what the function is meant for. Its devices need not be there.
        gradients: whether the derivatives of what the function returns, one scalar then, by all
            its variables are recorded too.

    Raises:
        LayoutError: listing all that does not fit the mesh.
        ShapeError: if there are to be gradients and not one scalar to differentiate.
    """
    abstract = mesh.abstract(notes=True)
    store = VariableStore(abstract)

    def program() -> Any:
        tensors = {}
        for name, given in inputs.items():
            is_pair = isinstance(given, tuple) and len(given) == 2
            shape, dtype = given if is_pair else (given, tf.float32)
            tensors[name] = argument(abstract, name, convert_to_shape(shape), as_dtype(dtype))
        with store.collecting(), random_stream(RandomStream((0, 0))):
            if not gradients:
                return function(**tensors)
            return _differentiated(function, tensors, store)

    return recorded(abstract, program)


def recorded(mesh: Mesh, program: Callable[[], Any]) -> Recording:
    """The recording of what `program` does on an abstract mesh that notes layouts.

    Args:
        mesh: made by `Mesh.abstract(notes=True)`.
        program: makes its arguments, and returns tensors, nested in lists and mappings.

    Raises:
        LayoutError: listing all that does not fit the mesh.
    """
    with tf.Graph().as_default(), _without_collecting():
        results = tf.nest.flatten(program())
        raise_faults(mesh.engine.faults, mesh.rules, mesh.axes)
        found = read(mesh.engine, [x.value for x in results])
        return Recording(mesh, found, mesh.engine.operations, mesh.engine.repeats)


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Garbage is left: looking for it among so many new objects takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def argument(mesh: Mesh, name: str, shape: Shape, dtype: tf.DType) -> Tensor:
    """A tensor that goes into a program on an abstract mesh."""
    mesh.check(shape, name)
    sizes = shape.to_integer_list
    return Tensor(
        mesh, shape, mesh.engine.new_argument(name, sizes, dtype, mesh.layout(shape), False)
    )


@contextlib.contextmanager
def updating(mesh: Mesh) -> Iterator[None]:
    """What is recorded inside belongs to the update of variables."""
    once = mesh.engine.underived() if mesh.is_abstract else contextlib.nullcontext()
    with tf.name_scope(Phase.UPDATE), once:
        yield


def _differentiated(
    function: Callable[..., Any], tensors: dict[str, Tensor], store: VariableStore
) -> list[Tensor]:
    mesh = store.mesh
    with tf.GradientTape() as tape:
        mesh.engine.tape = tape
        loss = function(**tensors)
        if not isinstance(loss, Tensor) or loss.shape.ndims:
            raise ShapeError(f"Gradients are of one scalar; the function returned {loss!r}.")
        with tape.stop_recording():
            trained = [v for v in store.variables.values() if v.trainable]
            variables = [
                Tensor(mesh, v.shape, mesh.engine.variables[v.name].value) for v in trained
            ]
            return [loss, *gradients_of(tape, loss, variables)]


def _operations(
    program: Program, noted: list[Noted], exchanges: list[Collective]
) -> list[Operation]:
    """The operations of the language, each with what the graph has of it in one phase."""
    flops: Counter[Key] = Counter()
    found: dict[Key, list[Exchange]] = {}
    for node in program.nodes:
        flops[node.key] += flops_of(node)
        found.setdefault(node.key, [])
    for kind, axes, size, index in exchanges:
        found[program.nodes[index].key].append(Exchange(kind, axes, size))
    rest = Noted("gradient", [], [])
    operations = []
    for (number, phase), listed in found.items():
        if number < 0 and not listed and not flops[number, phase]:
            continue
        what = noted[number] if number >= 0 else rest
        operations.append(
            Operation(what.place, phase, what.inputs, what.outputs, flops[number, phase], listed)
        )
    return operations


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB"


def _bytes(node: Node, layouts: Mapping[Value, Layout], axes: Mapping[str, int]) -> int:
    total = node.bytes[0]
    for axis in layouts[Value(node.index, 0)]:
        total //= axes[axis] if axis else 1
    return total
