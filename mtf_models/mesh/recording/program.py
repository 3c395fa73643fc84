"""A recorded program: the operations of its graph, in order, and what goes in and out."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from mtf_models.errors import MtfError
from mtf_models.mesh.engines.recorder import Argument, RecorderEngine
from mtf_models.mesh.layout import Layout
from mtf_models.mesh.recording.constants import known_value
from mtf_models.mesh.recording.phases import Key, key_of

_FUNCTIONS = frozenset(
    """Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile
    While""".split()
)

PIN = "Pin"
"""The type of a node that lays its operand out."""

PIN_GRADIENT = "PinGradient"
"""The type of a node that lays its first operand out like its second."""

_PIN_NAMED_IN_GRADIENT = re.compile(r"b'pin (\d+)\.'")


class Value(NamedTuple):
    """One result of a node.

    Attributes:
        node: the index of the node.
        number: which of its results.
    """

    node: int
    number: int


@dataclass(eq=False)
class Node:
    """One operation of the graph.

    Attributes:
        index: its place in the program.
        type: TensorFlow's name of the operation, or one of those above.
        name: its name in the graph, which begins with where in the program it is.
        key: the operation of the language, and the phase, that it belongs to.
        inputs: its operands.
        input_sizes: the sizes of each operand.
        sizes: the sizes of each result.
        dtypes: the dtype of each result.
        operation: of the graph.
        layout: what a pin or an argument is laid out like; else None.
    """

    index: int
    type: str
    name: str
    key: Key
    inputs: tuple[Value, ...]
    input_sizes: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[tf.DType, ...]
    operation: tf.Operation
    layout: Layout | None = None

    def copied(self, index: int, name: str, key: Key, inputs: tuple[Value, ...]) -> Node:
        """The same operation elsewhere, on other operands of the same sizes.

        What adds values up may have more of them.
        """
        more = len(inputs) - len(self.inputs)
        input_sizes = self.input_sizes + self.input_sizes[:1] * more
        copy = Node(
            index,
            self.type,
            name,
            key,
            inputs,
            input_sizes,
            self.sizes,
            self.dtypes,
            self.operation,
            self.layout,
        )
        copy.bytes = self.bytes
        return copy

    def attribute(self, name: str) -> Any:
        """An attribute of the operation."""
        return self.operation.get_attr(name)

    def constant(self, number: int) -> np.ndarray | None:
        """The value of an operand, if it is known beforehand."""
        if number not in self._constants:
            self._constants[number] = known_value(self.operation.inputs[number])
        return self._constants[number]

    @functools.cached_property
    def _constants(self) -> dict[int, np.ndarray | None]:
        return {}

    @functools.cached_property
    def parameters(self) -> bytes:
        """What else than operands an operation depends on, as bytes that are equal if it is."""
        if self.type in (PIN, PIN_GRADIENT):
            return repr(self.layout).encode()
        attributes = self.operation.node_def.attr
        return b"".join(
            name.encode() + attributes[name].SerializeToString()
            for name in sorted(attributes)
            if not name.startswith("_")
        )

    @functools.cached_property
    def bytes(self) -> tuple[int, ...]:
        """The bytes of each result, whole."""
        return tuple(math.prod(s) * d.size for s, d in zip(self.sizes, self.dtypes, strict=True))


@dataclass(frozen=True)
class Program:
    """What was recorded.

    Attributes:
        nodes: the operations that the results depend on, each after its operands.
        arguments: what goes in, by the index of its node.
        results: what comes out.
        variable_updates: for each argument that is a variable, its new value.
    """

    nodes: list[Node]
    arguments: dict[int, Argument]
    results: list[Value]
    variable_updates: dict[int, Value]

    @functools.cached_property
    def uses(self) -> dict[Value, list[tuple[int, int]]]:
        """The operands that each value is: the node and which operand of it."""
        found: dict[Value, list[tuple[int, int]]] = {}
        for node in self.nodes:
            for i, value in enumerate(node.inputs):
                found.setdefault(value, []).append((node.index, i))
        return found


def read(engine: RecorderEngine, results: Iterable[tf.Tensor]) -> Program:
    """The program that leads to tensors of the present graph, and to new values of variables.

    Args:
        engine: noted the pins and arguments.
        results: what the program returns.

    Raises:
        MtfError: if there are loops or branches, which are functions of their own in the graph.
    """
    results = list(results)
    updated = [v for v in engine.variables.values() if v.assigned is not None]
    operations = _needed([*results, *(v.assigned for v in updated)], engine)
    _refuse_functions(operations)
    reader = _Reader(engine)
    for operation in operations:
        reader.add(operation)
    nodes = reader.nodes
    arguments = {n.index: engine.arguments[n.name] for n in nodes if n.name in engine.arguments}
    updates = {
        reader.value(v.value).node: reader.value(v.assigned) for v in updated if reader.has(v.value)
    }
    return Program(nodes, arguments, [reader.value(x) for x in results], updates)


class _Reader:
    """Makes nodes of the operations of a graph, in order; calls become what they call."""

    def __init__(self, engine: RecorderEngine) -> None:
        self.nodes: list[Node] = []
        self._engine = engine
        self._pins = list(engine.pins)
        self._places: dict[str, int] = {}
        self._results: dict[str, Value] = {}
        self._bodies: dict[str, list[Node]] = {}

    def has(self, x: tf.Tensor) -> bool:
        """Whether the results depend on a tensor."""
        return x.op.name in self._places

    def value(self, x: tf.Tensor) -> Value:
        """Which result of which node a tensor is."""
        if x.op.name in self._results:
            return self._results[x.op.name]
        return Value(self._places[x.op.name], x.value_index)

    def add(self, operation: tf.Operation) -> None:
        """The next operation of the graph."""
        if operation.name in self._engine.calls:
            self._call(operation.name)
            return
        self._places[operation.name] = len(self.nodes)
        self.nodes.append(self._node(operation))

    def _call(self, name: str) -> None:
        """Repeats the nodes of what is called, with the operands of the call."""
        if name in self._results:
            return
        call, _ = self._engine.calls[name]
        given = zip(call.body.inputs, call.inputs, strict=True)
        same_as = {self.value(before): self.value(now) for before, now in given}
        for node in self._body(call.body.scope):
            copied = call.scope + node.name[len(call.body.scope) :]
            copy = node.copied(
                len(self.nodes),
                copied,
                key_of(copied, node.type),
                tuple(same_as.get(value, value) for value in node.inputs),
            )
            for number in range(len(node.sizes)):
                same_as[Value(node.index, number)] = Value(copy.index, number)
            self.nodes.append(copy)
        for before, now in zip(call.body.outputs, call.outputs, strict=True):
            found = self.value(before)
            self._results[now.op.name] = same_as.get(found, found)

    def _body(self, scope: str) -> list[Node]:
        if scope not in self._bodies:
            self._bodies[scope] = [n for n in self.nodes if n.name.startswith(f"{scope}/")]
        return self._bodies[scope]

    def _node(self, operation: tf.Operation) -> Node:
        engine, inputs, kind = self._engine, list(operation.inputs), operation.type
        layout = engine.pins.get(operation.name)
        if layout is not None:
            kind = PIN
        elif operation.name in engine.arguments:
            layout = engine.arguments[operation.name].layout
        like = _pin_of_gradient(operation, engine)
        if like is not None:
            kind = PIN_GRADIENT
            inputs.append(operation.graph.get_operation_by_name(self._pins[like]).inputs[0])
        return Node(
            len(self.nodes),
            kind,
            operation.name,
            key_of(operation.name, kind),
            tuple(self.value(x) for x in inputs),
            tuple(_sizes(x) for x in inputs),
            tuple(_sizes(x) for x in operation.outputs),
            tuple(x.dtype for x in operation.outputs),
            operation,
            layout,
        )


def _refuse_functions(operations: Sequence[tf.Operation]) -> None:
    found = [f"{x.name} ({x.type})" for x in operations if x.type in _FUNCTIONS]
    if found:
        raise MtfError(
            f"A recording does not look into loops and branches, and there are "
            f"{', '.join(found[:3])}{' and more' if found[3:] else ''}. Record one pass of the "
            "loop; of a training step one micro-batch (serialize_num_microbatches."
            "tokens_per_microbatch_per_replica = None, and the batch that much smaller)."
        )


def _needed(wanted: Sequence[tf.Tensor], engine: RecorderEngine) -> list[tf.Operation]:
    """The operations that tensors depend on, in the order in which they were made."""
    if not wanted:
        return []
    graph = wanted[0].graph
    reached = {id(x.op) for x in wanted}
    pinned = list(engine.pins)
    kept = []
    for operation in reversed(graph.get_operations()):
        if id(operation) not in reached:
            continue
        kept.append(operation)
        reached.update(id(x.op) for x in _operands(operation, engine))
        like = _pin_of_gradient(operation, engine)
        if like is not None:
            reached.add(id(graph.get_operation_by_name(pinned[like]).inputs[0].op))
    return kept[::-1]


def _operands(operation: tf.Operation, engine: RecorderEngine) -> list[tf.Tensor]:
    if operation.name not in engine.calls:
        return list(operation.inputs)
    call, _ = engine.calls[operation.name]
    return [*call.inputs, *call.body.inputs, *call.body.outputs]


def _pin_of_gradient(operation: tf.Operation, engine: RecorderEngine) -> int | None:
    """The number of the pin that an operation is the gradient of."""
    if operation.type != "CheckNumerics" or operation.name in engine.pins:
        return None
    found = _PIN_NAMED_IN_GRADIENT.search(operation.get_attr("message").decode())
    return int(found[1]) if found else None


def _sizes(x: tf.Tensor) -> tuple[int, ...]:
    return tuple(x.shape.as_list()) if x.shape.rank is not None else ()
