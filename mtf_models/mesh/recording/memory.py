"""How many bytes a program holds on each device while it runs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from mtf_models.mesh.engines.recorder import FUSED_NAME, Noted
from mtf_models.mesh.engines.single import SingleEngine
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
    noted: Sequence[Noted],
) -> Memory:
    """What is held while a program runs, its operations one after the other.

    A buffer is freed after its last use, and an operation on single elements puts its result in
    the place of an operand that nothing else needs. On one device a chain of operations that has a
    kernel there (`mtf.fused`) runs as one, and holds nothing between its operands and results.
    """
    return _Buffers(program, layouts, axes, collectives).run(_steps(program, axes, noted))


def _steps(program: Program, axes: Mapping[str, int], noted: Sequence[Noted]) -> list[list[Node]]:
    """The operations in order, those that one kernel runs together."""
    if math.prod(axes.values()) > 1:
        return [[node] for node in program.nodes]
    has_kernel = [_has_kernel(operation) for operation in noted]

    def kernel(node: Node) -> Hashable:
        number, phase = node.key
        return (number, phase) if number >= 0 and has_kernel[number] else node.index

    return [list(nodes) for _, nodes in itertools.groupby(program.nodes, kernel)]


def _has_kernel(operation: Noted) -> bool:
    largest = max((shape.size for shape in operation.inputs), default=0)
    is_fused = operation.place.rpartition("/")[2] == FUSED_NAME
    return is_fused and largest >= SingleEngine.least_fused


class _Buffers:
    """What is held, by the numbers of values: those of each node's results, one after the other."""

    def __init__(
        self,
        program: Program,
        layouts: Mapping[Value, Layout],
        axes: Mapping[str, int],
        collectives: list[Collective],
    ) -> None:
        self._program = program
        self._exchanged: Counter[int] = Counter()
        for exchange in collectives:
            self._exchanged[exchange.node] += exchange.bytes
        counts = (len(node.sizes) for node in program.nodes)
        self._first = list(itertools.accumulate(counts, initial=0))
        self._sizes = _sizes_on_device(program, layouts, axes)
        self._owner = self._owners()
        self._uses_left = [0] * len(self._sizes)
        self._is_held = [False] * len(self._sizes)

    def run(self, steps: list[list[Node]]) -> Memory:
        operands = [self._operands(nodes) for nodes in steps]
        kept = [*self._program.results, *self._program.variable_updates.values()]
        for found in [*operands, [self._owner[self._number(value)] for value in kept]]:
            for owner in found:
                self._uses_left[owner] += 1
        variables, now = self._hold_arguments()
        peak, at = now, 0
        for nodes, found in zip(steps, operands, strict=True):
            if nodes[0].index in self._program.arguments:
                continue
            now, most = self._run(nodes, found, now)
            if most > peak:
                peak, at = most, nodes[-1].index
        return Memory(variables, peak, at)

    def _number(self, value: Value) -> int:
        return self._first[value.node] + value.number

    def _owners(self) -> list[int]:
        """In whose buffer each value lies."""
        owners = list(range(len(self._sizes)))
        for node in self._program.nodes:
            if node.type in _VIEWS:
                first = self._first[node.index]
                for number, value in zip(range(len(node.sizes)), node.inputs, strict=False):
                    source = owners[self._number(value)]
                    if self._sizes[source] == self._sizes[first + number]:
                        owners[first + number] = source
        return owners

    def _operands(self, nodes: list[Node]) -> tuple[int, ...]:
        first, owner = self._first, self._owner
        return tuple({owner[first[v.node] + v.number] for node in nodes for v in node.inputs})

    def _hold_arguments(self) -> tuple[int, int]:
        """The bytes of variables, and of all that is held before anything runs."""
        variables = total = 0
        for index, argument in self._program.arguments.items():
            number = self._first[index]
            self._is_held[number] = True
            total += self._sizes[number]
            variables += self._sizes[number] if argument.is_variable else 0
            if not argument.is_variable or index not in self._program.variable_updates:
                self._uses_left[number] += 1
        return variables, total

    def _run(self, nodes: list[Node], operands: tuple[int, ...], now: int) -> tuple[int, int]:
        """What is held after operations that run as one, and the most while they run."""
        uses_left, is_held, sizes = self._uses_left, self._is_held, self._sizes
        for x in operands:
            uses_left[x] -= 1
        dying = [x for x in operands if uses_left[x] <= 0 and is_held[x]]
        is_kernel = len(nodes) > 1
        new = [
            x
            for node in nodes
            for x in range(self._first[node.index], self._first[node.index + 1])
            if self._owner[x] == x and (not is_kernel or uses_left[x] > 0)
        ]
        in_place = not is_kernel and nodes[0].type in ELEMENTWISE
        for x in new:
            place = next((y for y in dying if sizes[y] == sizes[x]), None) if in_place else None
            if place is not None:
                dying.remove(place)
                is_held[place] = False
                now -= sizes[place]
            is_held[x] = True
            now += sizes[x]
        most = now + sum(self._exchanged[node.index] + self._scratch(node) for node in nodes)
        for x in [*dying, *(x for x in new if uses_left[x] <= 0)]:
            is_held[x] = False
            now -= sizes[x]
        return now, most

    def _scratch(self, node: Node) -> int:
        """The copies that a product makes of what it must transpose."""
        if node.type != "Einsum" or len(node.inputs) < 2:
            return 0
        terms, result = products.equation_of(node)
        shared = set(terms[0]) & set(terms[1])
        batch = [x for x in result if x in shared]
        copies = [
            self._number(value)
            for term, value in zip(terms, node.inputs, strict=True)
            if not _is_in_order(term, batch, shared - set(batch))
        ]
        if not result.startswith("".join(batch)) or not _free_in_order(terms, result, batch):
            copies.append(self._first[node.index])
        return sum(self._sizes[number] for number in copies)


def _sizes_on_device(
    program: Program, layouts: Mapping[Value, Layout], axes: Mapping[str, int]
) -> list[int]:
    """The bytes of each value on a device, in the order of nodes and their results."""
    parts: dict[Layout, int] = {}
    found = []
    for node in program.nodes:
        for number, size in enumerate(node.bytes):
            layout = layouts[Value(node.index, number)]
            if layout not in parts:
                parts[layout] = math.prod([axes[axis] for axis in layout if axis])
            found.append(size // parts[layout])
    return found


def _is_in_order(term: str, batch: list[str], summed: set[str]) -> bool:
    """Whether a product can read an operand as it lies: batch first, what is summed together."""
    if list(term[: len(batch)]) != batch:
        return False
    rest = [x in summed for x in term[len(batch) :]]
    return sum(a != b for a, b in zip(rest, rest[1:], strict=False)) <= 1


def _free_in_order(terms: list[str], result: str, batch: list[str]) -> bool:
    free = [x for term in terms for x in term if x in result and x not in batch]
    return list(result[len(batch) :]) == free
