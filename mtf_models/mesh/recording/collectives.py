"""What devices exchange: where layouts of a program change, and where parts are summed up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_models.mesh.layout import Layout
from mtf_models.mesh.recording import products
from mtf_models.mesh.recording.program import PIN, PIN_GRADIENT, Node, Program, Value
from mtf_models.mesh.recording.rules import (
    ELEMENTWISE,
    MADE_WHOLE,
    REDUCTIONS,
    Axes,
    along,
    broadcast_operand,
    gather_places,
    kept_where_equal,
    reduced_layout,
    segments,
)

ALL_REDUCE = "all-reduce"
ALL_GATHER = "all-gather"
ALL_TO_ALL = "all-to-all"
REDUCE_SCATTER = "reduce-scatter"


class Collective(NamedTuple):
    """One exchange between devices.

    Attributes:
        kind: one of those above.
        axes: the mesh axes along which the devices that exchange lie.
        bytes: of the tensor on each device: of an all-gather the result, of others the operand.
        node: the index of the operation that needs it.
    """

    kind: str
    axes: tuple[str, ...]
    bytes: int
    node: int


def collectives_of(program: Program, layouts: dict[Value, Layout], axes: Axes) -> list[Collective]:
    """The exchanges of one run of a program, in the order of its operations."""
    if all(size == 1 for size in axes.values()):
        return []
    return _Expansion(program, layouts, axes).run()


class _Sum(NamedTuple):
    """A value that every device has a part of, to be summed up."""

    axes: tuple[str, ...]
    bytes: int
    node: int
    scattered: bool
    is_sum: bool


class _Expansion:
    def __init__(self, program: Program, layouts: dict[Value, Layout], axes: Axes) -> None:
        self._program = program
        self._layouts = layouts
        self._axes = axes
        self._found: list[Collective] = []
        self._done: set[tuple[Value, Layout, Layout]] = set()
        self._sums: dict[Value, _Sum] = {}
        self._same_as: dict[Value, Value] = {}
        self._first_of: dict[Hashable, int] = {}
        self._repeated: set[int] = set()

    def run(self) -> list[Collective]:
        for node in self._program.nodes:
            if not self._is_repeated(node) and node.inputs and node.sizes:
                self._expand(node)
        return sorted([*self._found, *self._sums_left()], key=lambda c: c.node)

    def _is_repeated(self, node: Node) -> bool:
        """Whether an operation computes what an earlier one has, which then serves for both."""
        operands = tuple(self._root(value) for value in node.inputs)
        layout = self._layouts.get(Value(node.index, 0))
        key = (node.type, operands, node.sizes, node.dtypes, layout, node.parameters)
        first = self._first_of.setdefault(key, node.index)
        if first == node.index or node.type == "Placeholder":
            return False
        for number in range(len(node.sizes)):
            self._same_as[Value(node.index, number)] = self._root(Value(first, number))
        self._repeated.add(node.index)
        return True

    def _expand(self, node: Node) -> None:
        ins = [self._layouts[value] for value in node.inputs]
        out = self._layouts[Value(node.index, 0)]
        if node.type in (PIN, PIN_GRADIENT):
            self._pass_on(node, out)
        elif node.type == "Einsum":
            found = products.local(node, ins, out)
            self._all(node, found.operands)
            self._sum(node, found.summed_over, found.result, out)
        elif node.type in ELEMENTWISE:
            self._all(node, [broadcast_operand(out, s) for s in node.input_sizes])
        elif node.type in REDUCTIONS:
            result = reduced_layout(node, ins[0])
            gone = [a for a in ins[0] if a and a not in result]
            self._sum(node, gone, result, out, node.type in ("Sum", "L2Loss"))
        elif node.type == "GatherV2":
            self._gather(node, ins, out)
        elif node.type == "UnsortedSegmentSum":
            self._segment_sum(node, ins, out)
        elif node.type in ("Reshape", "Squeeze"):
            self._reshape(node, ins[0], out)
        elif node.type in ("Softmax", "LogSoftmax") and ins[0][-1]:
            self._softmax(node, ins[0])
        elif node.type in ("ArgMax", "ArgMin"):
            place = along(node)
            self._relayout(node.inputs[0], ins[0], (*out[:place], None, *out[place:]), node)
        elif node.type in _LOCAL or node.type in MADE_WHOLE:
            pass
        else:
            self._local(node, ins, out)

    def _local(self, node: Node, ins: Sequence[Layout], out: Layout) -> None:
        """An operation that works where nothing that changes in size is split."""
        for value, layout, sizes in zip(node.inputs, ins, node.input_sizes, strict=True):
            if len(sizes) == len(node.sizes[0]) and sizes:
                self._relayout(value, layout, kept_where_equal(out, node.sizes[0], sizes), node)
            elif any(layout):
                self._relayout(value, layout, (None,) * len(layout), node)

    def _pass_on(self, node: Node, out: Layout) -> None:
        value, before = node.inputs[0], self._layouts[node.inputs[0]]
        if before == out:
            self._same_as[Value(node.index, 0)] = self._root(value)
        else:
            self._relayout(value, before, out, node)

    def _all(self, node: Node, targets: Sequence[Layout]) -> None:
        for value, target in zip(node.inputs, targets, strict=True):
            if self._layouts[value]:
                self._relayout(value, self._layouts[value], target, node)

    def _gather(self, node: Node, ins: Sequence[Layout], out: Layout) -> None:
        axis, batch = gather_places(node)
        if ins[0][axis]:
            target = (*ins[0][:axis], None, *ins[0][axis + 1 :])
            self._relayout(node.inputs[0], ins[0], target, node)
        count = len(ins[1]) - batch
        self._relayout(node.inputs[1], ins[1], (*out[:batch], *out[axis : axis + count]), node)

    def _segment_sum(self, node: Node, ins: Sequence[Layout], out: Layout) -> None:
        rank = len(ins[1])
        self._relayout(node.inputs[1], ins[1], ins[0][:rank], node)
        over = sorted({a for a in ins[0][:rank] if a})
        self._sum(node, over, (None, *ins[0][rank:]), out)

    def _reshape(self, node: Node, before: Layout, out: Layout) -> None:
        if not any(before) and not any(out):
            return
        source: list[str | None] = [None] * len(before)
        result: list[str | None] = [None] * len(out)
        for i, j in segments(node.input_sizes[0], node.sizes[0]):
            axis = before[i]
            if axis and node.sizes[0][j] % self._axes[axis] == 0:
                source[i] = result[j] = axis
        self._relayout(node.inputs[0], before, tuple(source), node)
        self._relayout(Value(node.index, 0), tuple(result), out, node)

    def _softmax(self, node: Node, before: Layout) -> None:
        """The largest logit and the sum of the exponentials, over the devices of the last axis."""
        kept = (*before[:-1], None)
        size = self._bytes((*node.sizes[0][:-1], 1), kept, node.dtypes[0].size)
        self._found += [Collective(ALL_REDUCE, (before[-1],), size, node.index)] * 2

    def _sum(
        self, node: Node, over: Iterable[str], result: Layout, out: Layout, is_sum: bool = True
    ) -> None:
        """Sums the parts of a result up, then lays it out."""
        value = Value(node.index, 0)
        over = tuple(sorted(set(over)))
        added = [b for a, b in zip(result, out, strict=True) if b and not a]
        lost = [a for a, b in zip(result, out, strict=True) if a and a != b]
        if over:
            size = self._bytes(node.sizes[0], result, node.dtypes[0].size)
            scattered = not lost and tuple(added) == over
            self._sums[value] = _Sum(over, size, node.index, scattered, is_sum)
            if result != out:
                # What is laid out anew is no longer the sum itself.
                self._same_as[value] = Value(-1 - node.index, 0)
                self._sums[self._same_as[value]] = self._sums.pop(value)
        self._relayout(value, result, out, node, made_here=True)

    def _relayout(
        self, value: Value, before: Layout, after: Layout, node: Node, made_here: bool = False
    ) -> None:
        """Notes what it takes to lay a value out anew."""
        if before == after:
            return
        root = value if made_here else self._root(value)
        if (root, before, after) in self._done:
            return
        self._done.add((root, before, after))
        source = self._program.nodes[value.node]
        sizes, dtype = source.sizes[value.number], source.dtypes[value.number]
        # Whole numbers travel as int64.
        width = dtype.size if dtype.is_floating else tf.int64.size
        changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        if sorted(changed, key=str) == sorted([(b, a) for a, b in changed], key=str) and (
            len(changed) == 2 and None in changed[0]
        ):
            axis = next(a for a, _ in changed if a)
            size = self._bytes(sizes, before, width)
            self._found.append(Collective(ALL_TO_ALL, (axis,), size, node.index))
            return
        split = tuple(
            b if b and not a and b not in before else a for a, b in zip(before, after, strict=True)
        )
        gathered = tuple(a if a == b else None for a, b in zip(split, after, strict=True))
        gone = tuple(sorted(a for a, b in zip(split, gathered, strict=True) if a and not b))
        if gone:
            size = self._bytes(sizes, gathered, width)
            self._found.append(Collective(ALL_GATHER, gone, size, node.index))

    def _sums_left(self) -> list[Collective]:
        """The sums over devices, after those that are added up are summed as one."""
        uses = self._uses_of_roots()
        sums = dict(self._sums)
        for node in self._program.nodes:
            if node.type not in ("Add", "AddN", "AddV2") or node.index in self._repeated:
                continue
            roots = [self._root(value) for value in node.inputs]
            parts = [sums.get(root) for root in roots]
            if not all(part and part.is_sum and not part.scattered for part in parts):
                continue
            if len({part.axes for part in parts}) > 1:
                continue
            for root in roots:
                uses[root] -= 1
                if uses[root] <= 0:
                    sums.pop(root, None)
            size = self._bytes(
                node.sizes[0], self._layouts[Value(node.index, 0)], node.dtypes[0].size
            )
            sums[Value(node.index, 0)] = parts[0]._replace(bytes=size, node=node.index)
        return [
            Collective(REDUCE_SCATTER if s.scattered else ALL_REDUCE, s.axes, s.bytes, s.node)
            for s in sums.values()
        ]

    def _uses_of_roots(self) -> Counter[Value]:
        found: Counter[Value] = Counter()
        for node in self._program.nodes:
            if node.index in self._repeated:
                continue
            for i, value in enumerate(node.inputs):
                passes_on = Value(node.index, 0) in self._same_as and i == 0
                only_layout = node.type == PIN_GRADIENT and i == 1
                if not (passes_on and node.type in (PIN, PIN_GRADIENT)) and not only_layout:
                    found[self._root(value)] += 1
        results = [*self._program.results, *self._program.variable_updates.values()]
        found.update(self._root(value) for value in results)
        return found

    def _root(self, value: Value) -> Value:
        return self._same_as.get(value, value)

    def _bytes(self, sizes: Sequence[int], layout: Layout, width: int) -> int:
        parts = math.prod(self._axes[a] for a in layout if a)
        return math.prod(sizes) * width // parts


_LOCAL = frozenset(
    ["Transpose", "ExpandDims", "BroadcastTo", "IdentityN", "Softmax", "LogSoftmax", "Placeholder"]
)
