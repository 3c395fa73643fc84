"""Layout rules: which dimension is split over which mesh axis. Free of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from mtf_models.errors import LayoutError, ShapeError, did_you_mean
from mtf_models.mesh import glossary
from mtf_models.mesh.dimension import Dimension, Shape, parse_pairs

Layout = tuple[str | None, ...]
"""For each dimension of a tensor the mesh axis that it is split over, or None."""


class Fault(NamedTuple):
    """One reason why tensors cannot be laid out; `tensors` are the tensors that it concerns."""

    reason: str
    remedy: str
    tensors: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.tensors[:3])
        more = f" and {len(self.tensors) - 3} more" if len(self.tensors) > 3 else ""
        return f"{self.reason} (in {shown}{more}): {self.remedy}"


RulesLike: TypeAlias = "LayoutRules | str | Mapping[str, str] | Iterable[tuple[str, str]]"


class LayoutRules:
    """An immutable list of (dimension name, axis name).

    `LayoutRules("batch:data,heads:model")` takes the string grammar of the original: pairs
    separated by space, comma, semicolon or full stop. Several dimensions may go to one axis.

    Raises:
        LayoutError: if a dimension is sent to two axes, or the text cannot be read.
    """

    def __init__(self, rules: RulesLike = ()) -> None:
        if isinstance(rules, LayoutRules):
            pairs = rules.pairs
        elif isinstance(rules, str):
            pairs = _parse(rules)
        else:
            pairs = _pairs(rules.items() if isinstance(rules, Mapping) else rules)
        self.pairs: tuple[tuple[str, str], ...] = tuple(dict.fromkeys(pairs))
        self._axis_of = dict(self.pairs)
        twice = {d: [a for x, a in self.pairs if x == d] for d, _ in self.pairs}
        faults = [f"{d} to {' and '.join(axes)}" for d, axes in twice.items() if len(axes) > 1]
        if faults:
            raise LayoutError(
                f"Layout rules send one dimension to several axes: {'; '.join(faults)}. "
                "Keep one axis for each dimension."
            )

    def axis_of(self, dimension_name: str) -> str | None:
        """The axis that the rules name for a dimension, whether a mesh has it or not."""
        return self._axis_of.get(dimension_name)

    def __str__(self) -> str:
        return ",".join(f"{dim}:{axis}" for dim, axis in self.pairs)

    def __repr__(self) -> str:
        return f"LayoutRules({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LayoutRules) and set(self.pairs) == set(other.pairs)

    def __hash__(self) -> int:
        return hash(frozenset(self.pairs))


def tensor_layout(shape: Shape, rules: LayoutRules, axes: Mapping[str, int]) -> Layout:
    """The layout of a tensor: an axis that the mesh lacks, or of size 1, splits nothing.

    Args:
        shape: the tensor's dimensions.
        rules: the layout rules.
        axes: the mesh, axis name to size.

    Returns:
        For each dimension an axis name or None; faults are not looked for (`layout_faults`).
    """
    found = (rules.axis_of(dim.name) for dim in shape)
    return tuple(axis if axis and axes.get(axis, 1) > 1 else None for axis in found)


def clashing(shape: Shape, layout: Layout) -> list[Dimension]:
    """The dimensions of a shape that go to an axis which an earlier one has."""
    return [d for i, d in enumerate(shape) if layout[i] and layout[i] in layout[:i]]


def layout_faults(shape: Shape, layout: Layout, axes: Mapping[str, int], name: str) -> list[Fault]:
    """Why a tensor cannot have this layout: sizes that do not divide, an axis used twice.

    Args:
        shape: the tensor's dimensions.
        layout: what `tensor_layout` gave.
        axes: the mesh, axis name to size.
        name: what to call the tensor.
    """
    faults = []
    split: dict[str, list[Dimension]] = {}
    for dim, axis in zip(shape, layout, strict=True):
        if axis is None:
            continue
        split.setdefault(axis, []).append(dim)
        if dim.size % axes[axis]:
            reason, remedy = _indivisible(dim, axis, axes[axis])
            faults.append(Fault(reason, remedy, (name,)))
    for axis, dims in split.items():
        if len(dims) > 1:
            names = " and ".join(d.name for d in dims)
            reason = f"dimensions {names} of one tensor are both split over axis {axis}"
            faults.append(Fault(reason, f"drop the layout rule of one of {names}", (name,)))
    return faults


def merge_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Joins the faults that differ only in the tensor."""
    tensors: dict[tuple[str, str], dict[str, None]] = {}
    for fault in faults:
        found = tensors.setdefault((fault.reason, fault.remedy), {})
        found.update(dict.fromkeys(fault.tensors))
    return [Fault(reason, remedy, tuple(found)) for (reason, remedy), found in tensors.items()]


def raise_faults(faults: Iterable[Fault], rules: LayoutRules, axes: Mapping[str, int]) -> None:
    """Raises one `LayoutError` that lists all faults; none: does nothing."""
    merged = merge_faults(faults)
    if not merged:
        return
    mesh = ",".join(f"{name}:{size}" for name, size in axes.items()) or "one device"
    lines = "\n".join(f"  {i}. {fault}" for i, fault in enumerate(merged, 1))
    raise LayoutError(f'Layout "{rules}" does not fit mesh "{mesh}":\n{lines}')


def check_rules(
    rules: LayoutRules, axes: Mapping[str, int], dimension_names: Iterable[str]
) -> list[str]:
    """Tells rules that do nothing here from rules that are misspelt.

    Args:
        rules: the layout rules.
        axes: the mesh, axis name to size.
        dimension_names: the dimensions of the model.

    Returns:
        The known rules that split nothing here, as `dimension:axis`.

    Raises:
        LayoutError: for every name that is neither in the model or mesh nor in the glossary,
            and for every absent axis that looks like a present one, with the nearest names.
    """
    present = set(dimension_names)
    faults = []
    idle = []
    for dim, axis in rules.pairs:
        if dim not in present and dim not in glossary.DIMENSIONS:
            near = did_you_mean(dim, present | set(glossary.DIMENSIONS))
            faults.append(f"{dim}:{axis}: no dimension is called {dim!r}{near}")
        elif axis not in axes and (axis not in glossary.AXES or _resembles(axis, axes)):
            near = did_you_mean(axis, axes or glossary.AXES)
            faults.append(f"{dim}:{axis}: the mesh has no axis {axis!r}{near}")
        elif dim not in present or axes.get(axis, 1) == 1:
            idle.append(f"{dim}:{axis}")
    if faults:
        lines = "\n".join(f"  {i}. {fault}" for i, fault in enumerate(faults, 1))
        raise LayoutError(f"Layout rules with unknown names would split nothing:\n{lines}")
    return idle


def _parse(text: str) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(parse_pairs(text, "layout rules"))
    except ShapeError as error:
        raise LayoutError(
            str(error).replace("batch:8,length:128", "batch:data,heads:model")
        ) from None


def _pairs(rules: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    found = list(rules)
    bad = [
        repr(rule)
        for rule in found
        if not isinstance(rule, tuple | list)
        or len(rule) != 2
        or not all(isinstance(name, str) and name for name in rule)
    ]
    if bad:
        raise LayoutError(
            f"Not a layout rule: {', '.join(bad)}. Give pairs of a dimension's and an axis's name."
        )
    return tuple((dim, axis) for dim, axis in found)


def _indivisible(dim: Dimension, axis: str, parts: int) -> tuple[str, str]:
    below, above = dim.size - dim.size % parts, dim.size + -dim.size % parts
    reason = (
        f"dimension {dim.name} of size {dim.size} does not divide over the {parts} parts of axis "
        f"{axis} (remainder {dim.size % parts})"
    )
    nearest = f"{below} or {above}" if below else f"{above}"
    if dim.name == "vocab":
        padded = -(-dim.size // 128) * 128
        padded += -padded % parts
        extra = f", or {padded} if padded to a multiple of 128" if padded != above else ""
        return reason, f"the nearest sizes that fit are {nearest}{extra}; --pad_vocab pads it"
    return reason, f"the nearest sizes that fit are {nearest}"


def _resembles(name: str, present: Iterable[str]) -> bool:
    return len(name) > 3 and any(_edits(name, other) <= 2 for other in present)


def _edits(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]
