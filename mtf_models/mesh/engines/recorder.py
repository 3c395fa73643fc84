"""The engine of abstract passes: nothing is held, faults of layout are collected, pins noted."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import tensorflow as tf

from mtf_models.errors import ShapeError
from mtf_models.mesh import scopes
from mtf_models.mesh.dimension import Shape
from mtf_models.mesh.engines.calls import Call, Computation
from mtf_models.mesh.engines.moving import moved
from mtf_models.mesh.engines.products import by_einsum
from mtf_models.mesh.engines.single import as_tensor
from mtf_models.mesh.layout import Fault, Layout

BACKWARD_NAME = "gradient_tape"
"""What TensorFlow has in the names of operations that it makes for gradients."""

READ_NAME = "read"
"""The name of the operation that makes of a variable's value what layers get."""

GRADIENTS = "gradients"
"""The name of the operation in which gradients are taken."""

FUSED_NAME = "fused"
"""The name of the operation that runs a chain of others."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.\\/-]")
"""What names in a graph cannot contain."""


class Argument(NamedTuple):
    """A value that a program takes: a feature, a weight or a slot.

    Attributes:
        name: of the variable, or of the input.
        layout: how it is laid out.
        is_variable: whether it is held from step to step.
    """

    name: str
    layout: Layout
    is_variable: bool


class Noted(NamedTuple):
    """An operation of the language.

    Attributes:
        place: the variable scope and the name of the operation.
        inputs: the shapes of its tensors.
        outputs: the shapes of its results.
    """

    place: str
    inputs: list[Shape]
    outputs: list[Shape]


class Repeat(NamedTuple):
    """A part of a program that stands for others like it.

    Attributes:
        scope: its variable scope.
        copies: those of the parts that were left out after it, in order.
        follower: that of the part after these, which ran.
    """

    scope: str
    copies: list[str]
    follower: str


class StandIn:
    """A variable of which nothing is known but its shape.

    Attributes:
        value: a placeholder.
        assigned: what the program put into it.
    """

    def __init__(self, value: tf.Tensor) -> None:
        self.value = value
        self.assigned: tf.Tensor | None = None

    def assign(self, value: tf.Tensor) -> None:
        """Notes the new value."""
        self.assigned = value

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> tf.Tensor:
        return self.value


class RecorderEngine:
    """Runs a program symbolically in a `tf.Graph`, whatever mesh it is meant for.

    Args:
        stand_ins: whether sizes of batches are made up.
        notes: whether the layouts that values are pinned to are noted, for a recording.
        abridges: whether a part that stands for others may run in their place.

    Attributes:
        least_fused: how many elements make a chain of operations one that is recorded once for
            each key and shapes; none do where gradients may be taken.
        called: None; each of the other chains is recorded anew.
        kernels: those chains, see `mesh.fused`.
        calls: what stands for results of such a chain, by the name of the graph's operation: the
            call, and which of its results.
        faults: what cannot be laid out.
        pins: the layout of each pinned value, by the name of the graph's operation.
        arguments: the values that the program takes, by the name of the graph's operation.
        variables: what stands for variables, by name.
        tape: watches them, if there is one.
        operations: those of the language, in the order of their numbers in the graph.
        repeats: the parts that stand for others.
        compiles_loops: False; all operations are recorded.
        writes_entries: False; as on a mesh of devices.
    """

    called = None
    compiles_loops = False
    writes_entries = False

    def __init__(self, stand_ins: bool = False, notes: bool = False, abridges: bool = True) -> None:
        self.stand_ins = stand_ins
        self.notes = notes
        self.abridges = abridges
        self.repeats: list[Repeat] = []
        self.faults: list[Fault] = []
        self.pins: dict[str, Layout] = {}
        self.arguments: dict[str, Argument] = {}
        self.variables: dict[str, StandIn] = {}
        self.tape: tf.GradientTape | None = None
        self.operations: list[Noted] = []
        self.least_fused = math.inf
        self.kernels: dict[Hashable, Any] = {}
        self.calls: dict[str, tuple[Call, int]] = {}

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """No device takes part; a recording numbers the operations in the names of the graph."""
        if not self.notes:
            return contextlib.nullcontext()
        self.operations.append(Noted(scopes.current_place(), [], []))
        place = _FORBIDDEN.sub("-", self.operations[-1].place)
        return tf.name_scope(f"{place}.{len(self.operations) - 1}")

    def note(self, inputs: list[Shape], outputs: list[Shape], number: int = -1) -> None:
        """Notes the shapes of an operation, by default the one that was entered last."""
        if self.notes:
            self.operations[number] = Noted(self.operations[number].place, inputs, outputs)

    @contextlib.contextmanager
    def underived(self) -> Iterator[None]:
        """Around what no gradients are taken of: chains of operations are recorded once."""
        self.least_fused = 0
        try:
            yield
        finally:
            self.least_fused = math.inf

    def leaves_out(self, name: str) -> bool:
        """Whether a variable belongs to a part for which another one stands."""
        return any(name.startswith(f"{copy}/") for r in self.repeats for copy in r.copies)

    def backward(self) -> contextlib.AbstractContextManager[Any]:
        """Around a derivative that TensorFlow does not make."""
        return tf.name_scope(f"{BACKWARD_NAME}/")

    def kernel(self, run: Callable[..., list[tf.Tensor]]) -> Callable[..., list[tf.Tensor]]:
        """A function of values that is recorded once."""
        return Computation(run, self.calls)

    def locked(self) -> contextlib.AbstractContextManager[Any]:
        """Nothing is compiled here."""
        return contextlib.nullcontext()

    def put(self, value: Any, layout: Layout, dtype: tf.DType | None = None) -> tf.Tensor:
        """A constant of the graph."""
        return self.pin(as_tensor(value, dtype), layout)

    def pin(self, value: tf.Tensor, layout: Layout) -> tf.Tensor:
        """Passes a symbolic value on; a recording notes its layout.

        In the graph a pin is a CheckNumerics, the one public operation that passes a value on and
        has one of its kind for gradient, which names the operation that it is the gradient of.
        """
        if not self.notes:
            return value
        if not value.dtype.is_floating:
            value = tf.raw_ops.Identity(input=value)
            self.pins[value.op.name] = layout
            return value
        number = len(self.pins)
        value = tf.raw_ops.CheckNumerics(tensor=value, message=f"pin {number}.")
        self.pins[value.op.name] = layout
        return value

    def product(self, a: tf.Tensor, b: tf.Tensor, terms: Sequence[str]) -> tf.Tensor:
        """An einsum, of which a recording knows what each device computes."""
        return by_einsum(a, b, terms)

    def move(self, value: tf.Tensor, before: Layout, after: Layout) -> tf.Tensor:
        """Passes a symbolic value on; a recording notes its layouts."""
        return moved(value, before, after, self.pin) if self.notes else value

    def new_argument(
        self, name: str, sizes: list[int], dtype: tf.DType, layout: Layout, is_variable: bool
    ) -> tf.Tensor:
        """A symbolic value that the program takes."""
        # Of zeros TensorFlow may compute the value while it infers shapes.
        value = tf.raw_ops.Placeholder(dtype=dtype, shape=sizes)
        self.arguments[value.op.name] = Argument(name, layout, is_variable)
        return value

    def stand_in(self, name: str, sizes: list[int], dtype: tf.DType, layout: Layout) -> StandIn:
        """What stands for a variable that nobody allocates: one in each graph."""
        new = StandIn(self.new_argument(name, sizes, dtype, layout, True))
        known = self.variables.get(name)
        if known is not None and known.value.graph is new.value.graph:
            return known
        self.variables[name] = new
        if self.tape is not None:
            self.tape.watch(new.value)
        return new

    def make_variable(self, initial: tf.Tensor, layout: Layout, name: str) -> NoReturn:
        """Refuses: the abstract pass allocates nothing."""
        raise ShapeError(f"Variable {name} cannot be allocated in an abstract pass.")

    def fetch(self, value: tf.Tensor) -> np.ndarray:
        """Refuses: a symbolic tensor has no value."""
        raise ShapeError("A tensor of an abstract pass has no value; run the model to get one.")
