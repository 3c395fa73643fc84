"""How many bytes a program holds on each device while it runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from mtf_models.mesh.layout import Layout
from mtf_models.mesh.recording import products
from mtf_models.mesh.recording.collectives import Collective
from mtf_models.mesh.recording.program import Node, Program, Value
from mtf_models.mesh.recording.rules import ELEMENTWISE

# What these give is the buffer of their operand under another shape.
_VIEWS = frozenset(
    """CheckNumerics ExpandDims Identity IdentityN Pin PinGradient PreventGradient Reshape Squeeze
    StopGradient""".split()
)


class Memory(NamedTuple):
    """Bytes on each device.

    Attributes:
        variables: of what is held from step to step: weights and slots.
        peak: at the moment when most is held, variables included.
        peak_node: the index of the operation at which that is.
    """

    variables: int
    peak: int
    peak_node: int


def memory_of(
    program: Program,
    layouts: Mapping[Value, Layout],
    axes: Mapping[str, int],
    collectives: list[Collective],
) -> Memory:
    """What is held while a program runs, its operations one after the other.

    A buffer is freed after its last use, and an operation on single elements puts its result in
    the place of an operand that nothing else needs.
    """
    return _Buffers(program, layouts, axes, collectives).run()


class _Buffers:
    def __init__(
        self,
        program: Program,
        layouts: Mapping[Value, Layout],
        axes: Mapping[str, int],
        collectives: list[Collective],
    ) -> None:
        self._program = program
        self._layouts = layouts
        self._axes = axes
        self._exchanged: Counter[int] = Counter()
        for exchange in collectives:
            self._exchanged[exchange.node] += exchange.bytes
        self._owner: dict[Value, Value] = {}
        self._uses_left: Counter[Value] = Counter()
        self._held: dict[Value, int] = {}
        self._sizes: dict[Value, int] = {}

    def run(self) -> Memory:
        self._find_owners()
        for node in self._program.nodes:
            self._uses_left.update({self._owner[value] for value in node.inputs})
        kept = [*self._program.results, *self._program.variable_updates.values()]
        self._uses_left.update(self._owner[value] for value in kept)
        for index, argument in self._program.arguments.items():
            value = Value(index, 0)
            self._held[value] = self._bytes(value)
            if not argument.is_variable or index not in self._program.variable_updates:
                self._uses_left[value] += 1
        variables = self._variables()
        now = peak = sum(self._held.values())
        at = 0
        for node in self._program.nodes:
            made, most = self._run(node, now)
            if most > peak:
                peak, at = most, node.index
            now = made
        return Memory(variables, peak, at)

    def _variables(self) -> int:
        arguments = self._program.arguments.items()
        return sum(self._held[Value(i, 0)] for i, a in arguments if a.is_variable)

    def _find_owners(self) -> None:
        """Whose buffer each value lies in."""
        for node in self._program.nodes:
            for number in range(len(node.sizes)):
                value = Value(node.index, number)
                self._owner[value] = value
                if node.type in _VIEWS and number < len(node.inputs):
                    source = self._owner[node.inputs[number]]
                    if self._bytes(source) == self._bytes(value):
                        self._owner[value] = source

    def _run(self, node: Node, now: int) -> tuple[int, int]:
        """What is held after an operation, and the most while it runs."""
        if node.index in self._program.arguments:
            return now, now
        operands = {self._owner[value] for value in node.inputs}
        self._uses_left.subtract(operands)
        dying = [x for x in operands if self._uses_left[x] <= 0 and x in self._held]
        new = [
            value
            for value in (Value(node.index, i) for i in range(len(node.sizes)))
            if self._owner[value] == value
        ]
        scratch = self._exchanged[node.index] + self._scratch(node)
        for value in new:
            size = self._bytes(value)
            place = next((x for x in dying if self._held[x] == size), None)
            if node.type in ELEMENTWISE and place is not None:
                dying.remove(place)
                now -= self._held.pop(place)
            self._held[value] = size
            now += size
        most = now + scratch
        for value in dying:
            now -= self._held.pop(value)
        for value in new:
            if self._uses_left[value] <= 0:
                now -= self._held.pop(value)
        return now, most

    def _scratch(self, node: Node) -> int:
        """The copies that a product makes of what it must transpose."""
        if node.type != "Einsum" or len(node.inputs) < 2:
            return 0
        terms, result = products.equation_of(node)
        shared = set(terms[0]) & set(terms[1])
        batch = [x for x in result if x in shared]
        copies = [
            value
            for term, value in zip(terms, node.inputs, strict=True)
            if not _is_in_order(term, batch, shared - set(batch))
        ]
        if not result.startswith("".join(batch)) or not _free_in_order(terms, result, batch):
            copies.append(Value(node.index, 0))
        return sum(self._bytes(value) for value in copies)

    def _bytes(self, value: Value) -> int:
        if value not in self._sizes:
            size = self._program.nodes[value.node].bytes[value.number]
            parts = math.prod([self._axes[a] for a in self._layouts[value] if a])
            self._sizes[value] = size // parts
        return self._sizes[value]


def _is_in_order(term: str, batch: list[str], summed: set[str]) -> bool:
    """Whether a product can read an operand as it lies: batch first, what is summed together."""
    if list(term[: len(batch)]) != batch:
        return False
    rest = [x in summed for x in term[len(batch) :]]
    return sum(a != b for a, b in zip(rest, rest[1:], strict=False)) <= 1


def _free_in_order(terms: list[str], result: str, batch: list[str]) -> bool:
    free = [x for term in terms for x in term if x in result and x not in batch]
    return list(result[len(batch) :]) == free
