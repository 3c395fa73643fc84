"""Which operations belong to a part of a program, and how that part hangs together with others.

The part that stands for others is compared with the one that follows them: what takes the place of
a value there tells whether the value comes from the part before.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from mtf_models.mesh.engines.recorder import GRADIENTS, READ_NAME, Noted, Repeat
from mtf_models.mesh.recording.phases import Phase
from mtf_models.mesh.recording.program import Node, Program, Value


class PartsDiffer(Exception):
    """A part that was to stand for others is not like the one after them."""


class Chained(NamedTuple):
    """A value that the next or the last part gives.

    Attributes:
        value: what the part itself gives in that place, to the part after or before it.
        from_before: whether the part before gives it; else the part after, for gradients.
    """

    value: Value
    from_before: bool


class Regions:
    """The operations of a part, and of the part that follows those that it stands for.

    Args:
        program: what was recorded.
        noted: the operations of the language.
        repeat: which part.

    Raises:
        PartsDiffer: if the two are not alike, operation by operation.
    """

    def __init__(self, program: Program, noted: Sequence[Noted], repeat: Repeat) -> None:
        self._program = program
        self._noted = noted
        self._scopes = f"{repeat.scope}/", f"{repeat.follower}/"
        self._scope_of: dict[int, str] = {}
        for node in program.nodes:
            self._place(node)
        for node in reversed(program.nodes):
            self._place_by_users(node)
        self._nodes, self._following = (
            [n for n in program.nodes if self._scope_of.get(n.index) == scope]
            for scope in self._scopes
        )
        self.own = {node.index: i for i, node in enumerate(self._nodes)}
        self._follows = {node.index: i for i, node in enumerate(self._following)}
        if not self._nodes or [*map(_kind, self._nodes)] != [*map(_kind, self._following)]:
            raise PartsDiffer(f"{repeat.scope} and {repeat.follower} compute different things")

    def stretches(self) -> dict[int, list[Node]]:
        """The part's operations that run together, by the index of the last of them."""
        found: dict[Hashable, list[Node]] = {}
        for node in self._nodes:
            found.setdefault(self._stretch(node), []).append(node)
        return {nodes[-1].index: nodes for nodes in found.values()}

    def _stretch(self, node: Node) -> Hashable:
        number, phase = node.key
        if node.index in self._program.arguments:
            # Variables are before slots, with those of other parts between.
            before = [i for i in self._program.arguments if i < node.index]
            return "argument", sum(i not in self.own for i in before)
        place = self._noted[number].place if number >= 0 else ""
        # Before it all variables are read, and after it all gradients are pinned.
        name = place.rpartition("/")[2]
        is_apart = phase == Phase.FORWARD and name in (READ_NAME, GRADIENTS)
        return phase, name if is_apart else ""

    def follows(self, node: Node) -> bool:
        """Whether an operation belongs to the part after those that are left out."""
        return node.index in self._follows

    def is_noted(self, number: int) -> bool:
        """Whether an operation of the language is one of the part."""
        return number >= 0 and self._noted[number].place.startswith(self._scopes[0])

    def chained(self, node: Node, place: int) -> Chained | None:
        """How an operand of the part that comes from outside depends on parts beside it.

        Returns:
            None if it is made in the part itself, or is the same for all parts.

        Raises:
            PartsDiffer: if it is another one in the part that follows, for no known reason.
        """
        value = node.inputs[place]
        if value.node in self.own:
            return None
        there = self._following[self.own[node.index]].inputs[place]
        if there.node in self.own:
            return Chained(there, True)
        if value.node in self._follows:
            like = self._nodes[self._follows[value.node]]
            return Chained(Value(like.index, value.number), False)
        if value != there:
            raise PartsDiffer(f"{node.name} takes different values from outside")
        return None

    def _place(self, node: Node) -> None:
        argument = self._program.arguments.get(node.index)
        number, _ = node.key
        place = self._noted[number].place if number >= 0 else ""
        name = argument.name if argument else place
        scope = next((s for s in self._scopes if name.startswith(s)), None)
        if scope is None and not argument and place in ("", GRADIENTS):
            # What the tape adds up by itself has no place: it is where the last summand is made.
            scope = self._scope_of.get(max((value.node for value in node.inputs), default=-1))
        if scope is not None:
            self._scope_of[node.index] = scope

    def _place_by_users(self, node: Node) -> None:
        if node.index in self._scope_of or node.inputs or node.index in self._program.arguments:
            return
        users = [user for user, _ in self._program.uses.get(Value(node.index, 0), ())]
        scopes = {self._scope_of.get(user) for user in users}
        if len(scopes) == 1 and None not in scopes:
            self._scope_of[node.index] = scopes.pop()


def _kind(node: Node) -> tuple[object, ...]:
    return node.type, node.sizes, node.dtypes, node.layout, node.key[1]
