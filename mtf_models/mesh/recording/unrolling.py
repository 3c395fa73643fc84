"""Putting the parts of a program in that were left out since another one stands for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mtf_models.mesh.engines.recorder import Argument, Noted, Repeat
from mtf_models.mesh.layout import Layout
from mtf_models.mesh.recording.collectives import Collective
from mtf_models.mesh.recording.phases import Key, Phase
from mtf_models.mesh.recording.program import Node, Program, Value
from mtf_models.mesh.recording.regions import Chained, PartsDiffer, Regions


class Counted(NamedTuple):
    """A program, with what was found out about it.

    Attributes:
        program: its operations.
        noted: those of the language.
        layouts: of each value.
        exchanges: what devices exchange.
    """

    program: Program
    noted: list[Noted]
    layouts: dict[Value, Layout]
    exchanges: list[Collective]


def unrolled(counted: Counted, repeat: Repeat) -> Counted:
    """The program with every part that `repeat` stands for, as if all had run.

    A value of the part before is what the part took from there; what parts give to one sum goes
    there from each of them.

    Args:
        counted: the program in which one part stands for others.
        repeat: that part, and the others.

    Raises:
        PartsDiffer: if the parts are not so simply alike.
    """
    return _Unrolling(counted, repeat).run()


class _Unrolling:
    def __init__(self, counted: Counted, repeat: Repeat) -> None:
        self._counted = counted
        self._nodes = counted.program.nodes
        self._scopes = [repeat.scope, *repeat.copies]
        self._regions = Regions(counted.program, counted.noted, repeat)
        self._noted = list(counted.noted)
        self._numbers: dict[tuple[int, int], int] = {}
        self._new: list[Node] = []
        self._values: list[dict[Value, Value]] = [{} for _ in self._scopes]
        self._outside: dict[Value, Value] = {}
        self._sources: list[int] = []

    def run(self) -> Counted:
        """Copies operation by operation."""
        self._check_results()
        stretches = self._regions.stretches()
        for node in self._nodes:
            if node.index not in self._regions.own:
                self._put_outside(node)
            elif node.index in stretches:
                self._put_copies(stretches[node.index])
        return self._finished()

    def _check_results(self) -> None:
        own = self._regions.own
        if any(value.node in own for value in self._counted.program.results):
            raise PartsDiffer("a result of the program comes out of a part")

    def _put_copies(self, nodes: list[Node]) -> None:
        """All copies of what a part does in a stretch; backward the last copy comes first."""
        copies = range(len(self._scopes))
        backward = nodes[0].key[1] == Phase.BACKWARD
        ways = [(n, [self._regions.chained(n, i) for i in range(len(n.inputs))]) for n in nodes]
        for copy in reversed(copies) if backward else copies:
            for node, sources in ways:
                inputs = tuple(
                    [self._operand(v, s, copy) for v, s in zip(node.inputs, sources, strict=True)]
                )
                self._put(node, self._key(node, copy), inputs, self._values[copy])

    def _operand(self, value: Value, chained: Chained | None, copy: int) -> Value:
        if value.node in self._regions.own:
            return _found(self._values[copy], value)
        if chained is not None:
            beside = copy - 1 if chained.from_before else copy + 1
            if 0 <= beside < len(self._values):
                return _found(self._values[beside], chained.value)
        return _found(self._outside, value)

    def _put_outside(self, node: Node) -> None:
        self._put(node, node.key, tuple(self._operands_outside(node)), self._outside)

    def _operands_outside(self, node: Node) -> Iterator[Value]:
        own = self._regions.own
        is_sum = node.type == "AddN" and any(value.node not in own for value in node.inputs)
        for value in node.inputs:
            if value.node not in own:
                yield _found(self._outside, value)
            elif is_sum:
                yield from (_found(values, value) for values in reversed(self._values))
            elif self._regions.follows(node):
                yield _found(self._values[-1], value)
            elif self._is_backward(value):
                yield _found(self._values[0], value)
            else:
                raise PartsDiffer(f"{node.name} takes what a part gives")

    def _is_backward(self, value: Value) -> bool:
        return self._nodes[value.node].key[1] == Phase.BACKWARD

    def _put(
        self, node: Node, key: Key, inputs: tuple[Value, ...], values: dict[Value, Value]
    ) -> None:
        copy = node.copied(len(self._new), node.name, key, inputs)
        for number in range(len(node.sizes)):
            values[Value(node.index, number)] = Value(copy.index, number)
        self._new.append(copy)
        self._sources.append(node.index)

    def _key(self, node: Node, copy: int) -> Key:
        """With a number of its own for the copy of each operation of the language."""
        number, phase = node.key
        if copy == 0 or not self._regions.is_noted(number):
            return node.key
        if (number, copy) not in self._numbers:
            self._numbers[number, copy] = len(self._noted)
            before = self._noted[number]
            place = before.place.replace(self._scopes[0], self._scopes[copy], 1)
            self._noted.append(before._replace(place=place))
        return self._numbers[number, copy], phase

    def _finished(self) -> Counted:
        old, sources = self._counted, self._sources
        arguments: dict[int, Argument] = {}
        updates: dict[int, Value] = {}
        seen: dict[int, int] = {}
        layouts: dict[Value, Layout] = {}
        places: dict[int, list[int]] = {}
        for node, source in zip(self._new, sources, strict=True):
            places.setdefault(source, []).append(node.index)
            copy = seen[source] = seen.get(source, -1) + 1
            for number in range(len(node.sizes)):
                layouts[Value(node.index, number)] = old.layouts[Value(source, number)]
            if source in old.program.arguments:
                arguments[node.index] = self._argument(source, copy)
        for source, value in old.program.variable_updates.items():
            tables = self._values if source in self._regions.own else [self._outside]
            for table in tables:
                updates[_found(table, Value(source, 0)).node] = _found(table, value)
        exchanges = [
            exchange._replace(node=index)
            for exchange in old.exchanges
            for index in places[exchange.node]
        ]
        exchanges.sort(key=lambda exchange: exchange.node)
        results = [_found(self._outside, value) for value in old.program.results]
        program = Program(self._new, arguments, results, updates)
        return Counted(program, self._noted, layouts, exchanges)

    def _argument(self, source: int, copy: int) -> Argument:
        argument = self._counted.program.arguments[source]
        if source not in self._regions.own:
            return argument
        name = argument.name.replace(self._scopes[0], self._scopes[copy], 1)
        return argument._replace(name=name)


def _found(values: dict[Value, Value], value: Value) -> Value:
    """The new place of a value, which must have been put there before."""
    if value not in values:
        raise PartsDiffer("a part takes what is computed after it")
    return values[value]
