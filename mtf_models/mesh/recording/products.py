"""How layouts go through an einsum, and what it communicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from mtf_models.mesh.layout import Layout
from mtf_models.mesh.recording.program import Node
from mtf_models.mesh.recording.rules import ANY, Axes, Layouts, Rule, whole

Split = dict[str, str]
"""The axis over which each letter of an equation is split."""


class Equation(NamedTuple):
    """The letters of the operands and of the result."""

    operands: list[str]
    result: str

    @property
    def summed(self) -> set[str]:
        """The letters that the result lacks."""
        return set("".join(self.operands)) - set(self.result)


def equation_of(node: Node) -> Equation:
    """The equation of an einsum."""
    left, result = node.attribute("equation").decode().split("->")
    return Equation(left.split(","), result)


def _splits(terms: Sequence[str], layouts: Sequence[Layout]) -> Split:
    """The axis of each letter; a letter that has two is not split."""
    found: Split = {}
    clashing = set()
    for term, layout in zip(terms, layouts, strict=True):
        for letter, axis in zip(term, layout, strict=True):
            if axis and found.setdefault(letter, axis) != axis:
                clashing.add(letter)
    return {letter: axis for letter, axis in found.items() if letter not in clashing}


def _layout(term: str, split: Split) -> Layout:
    """The layout of one operand; an axis that two of its letters have splits neither."""
    axes = [split.get(letter) for letter in term]
    count = Counter(axes)
    return tuple(axis if axis == ANY or count[axis] == 1 else None for axis in axes)


def _forward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if all(layout is None for layout in layouts):
        return [None]
    terms, result = equation_of(node)
    known = [
        whole(sizes) if layout is None else layout
        for layout, sizes in zip(layouts, node.input_sizes, strict=True)
    ]
    return [_layout(result, _splits(terms, known))]


def _backward(node: Node, layouts: Layouts, axes: Axes) -> list[Layout | None]:
    if layouts[0] is None:
        return [None] * len(node.inputs)
    equation = equation_of(node)
    split = _splits([equation.result], [layouts[0]])
    free = {x for x in equation.summed if all(term.count(x) < 2 for term in equation.operands)}
    return [
        tuple(
            ANY if x in free else axis for x, axis in zip(term, _layout(term, split), strict=True)
        )
        for term in equation.operands
    ]


RULE = Rule(_forward, _backward)


class Local(NamedTuple):
    """What each device computes of an einsum.

    Attributes:
        operands: how the operands are laid out for it.
        result: how the result is laid out after it.
        summed_over: the axes over which the results of the devices are summed.
    """

    operands: list[Layout]
    result: Layout
    summed_over: list[str]


def local(node: Node, operands: Sequence[Layout], result: Layout) -> Local:
    """What each device computes, from how the operands are laid out and the result is to be."""
    equation = equation_of(node)
    terms = equation.operands
    split: dict[str, str | None] = dict(_splits(terms, operands))
    wanted = _splits([equation.result], [result])
    used = {axis for axis in split.values() if axis}
    for letter in sorted(set("".join(terms)) - equation.summed):
        if letter in wanted and letter not in split and wanted[letter] not in used:
            split[letter] = wanted[letter]
            used.add(wanted[letter])
    for axis in sorted(used):
        _settle(axis, split, equation, wanted)
    placed = {letter: axis for letter, axis in split.items() if axis}
    return Local(
        [_layout(term, placed) for term in terms],
        _layout(equation.result, placed),
        sorted({placed[x] for x in equation.summed if x in placed}),
    )


def _settle(axis: str, split: dict[str, str | None], equation: Equation, wanted: Split) -> None:
    """Leaves an axis to one of the letters that are split over it: one that is kept first."""
    letters = sorted(x for x, a in split.items() if a == axis)
    kept = [x for x in letters if x not in equation.summed]
    if len(kept) > 1:
        stays = next((x for x in kept if wanted.get(x) == axis), kept[0])
        split.update({x: None for x in kept if x != stays})
    if kept:
        split.update({x: None for x in letters if x in equation.summed})
