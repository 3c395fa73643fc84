"""Which layout every value of a program has: pins spread until nothing changes.

Operations say what layout their results get and what layout they ask their operands for; a value
has what its producer gives, and is split further where all its users ask for it. This is how
DTensor decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mtf_models.mesh.layout import Layout
from mtf_models.mesh.recording import products
from mtf_models.mesh.recording.program import Node, Program, Value
from mtf_models.mesh.recording.rules import ANY, Axes, Rule, rule_of, whole

_MOST_ROUNDS = 64

Requests = dict[tuple[int, int], Layout]


def layouts_of(program: Program, axes: Axes) -> dict[Value, Layout]:
    """The layout of every value of a program.

    Args:
        program: what was recorded.
        axes: the mesh, axis name to size.
    """
    if all(size == 1 for size in axes.values()):
        return {
            Value(node.index, i): whole(sizes)
            for node in program.nodes
            for i, sizes in enumerate(node.sizes)
        }
    return _Propagation(program, axes).run()


class _Propagation:
    def __init__(self, program: Program, axes: Axes) -> None:
        self._nodes = program.nodes
        self._uses = program.uses
        self._axes = axes
        self._given: dict[Value, Layout] = {}
        self._asked: dict[Value, Requests] = {}
        self._merged: dict[Value, Layout] = {}
        self._locked = {Value(index, 0) for index in program.arguments}
        self._private: dict[tuple[int, int], Layout] = {}

    def run(self) -> dict[Value, Layout]:
        """Spreads layouts until they stay."""
        changed: set[Value] = set()
        for node in self._nodes:
            changed |= self._update(node)
        for _ in range(_MOST_ROUNDS):
            new = {value for value in changed if self._merge(value)}
            if not new:
                break
            touched = {value.node for value in new}
            touched.update(node for value in new for node, _ in self._uses.get(value, ()))
            changed = set()
            for index in sorted(touched):
                changed |= self._update(self._nodes[index])
        for node in self._nodes:
            for number, sizes in enumerate(node.sizes):
                self._merged.setdefault(Value(node.index, number), whole(sizes))
        return self._merged

    def _update(self, node: Node) -> set[Value]:
        """Asks one operation again; returns the values of which it says something new."""
        rule = products.RULE if node.type == "Einsum" else rule_of(node)
        inputs = [self._merged.get(value) for value in node.inputs]
        outputs = [self._merged.get(Value(node.index, i)) for i in range(len(node.sizes))]
        return self._give(node, rule, inputs) | self._ask(node, rule, outputs)

    def _give(self, node: Node, rule: Rule, inputs: list[Layout | None]) -> set[Value]:
        changed = set()
        for number, layout in enumerate(rule.forward(node, inputs, self._axes)):
            value = Value(node.index, number)
            if layout is not None and self._given.get(value) != layout:
                self._given[value] = layout
                changed.add(value)
        return changed

    def _ask(self, node: Node, rule: Rule, outputs: list[Layout | None]) -> set[Value]:
        changed = set()
        if not node.inputs or not node.sizes:
            return changed
        found = rule.backward(node, outputs, self._axes)
        for i, (value, layout) in enumerate(zip(node.inputs, found, strict=True)):
            requests = self._asked.setdefault(value, {})
            if layout is None:
                if requests.pop((node.index, i), None) is not None:
                    changed.add(value)
            elif requests.get((node.index, i)) != layout:
                requests[node.index, i] = layout
                changed.add(value)
        return changed

    def _merge(self, value: Value) -> bool:
        """Whether the layout of a value is another one now."""
        given = self._given.get(value)
        if value in self._locked or not self._asked.get(value):
            found = given
        else:
            found = _merge(given, self._asked[value].values())
        if found is None or self._merged.get(value) == found:
            return False
        self._merged[value] = found
        return True


def _merge(given: Layout | None, asked: Iterable[Layout]) -> Layout:
    """What the producer gives, split further where all users ask for it."""
    proposed = list(zip(*asked, strict=True))
    found = [_agreed(column) for column in proposed]
    count = Counter(found)
    found = [axis if axis == ANY or count[axis] < 2 else None for axis in found]
    if given is not None:
        used = {axis for axis in given if axis}
        for i, axis in enumerate(given):
            if axis or found[i] == ANY:
                found[i] = axis
            elif found[i] in used:
                found[i] = None
    return tuple(None if axis == ANY else axis for axis in found)


def _agreed(column: tuple[str | None, ...]) -> str | None:
    said = {axis for axis in column if axis != ANY}
    if not said:
        return ANY
    return said.pop() if len(said) == 1 else None
