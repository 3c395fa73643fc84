"""Where to try a function: meshes of eight devices, and layouts that cover the ways to split."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from mtf_models.mesh.dimension import Shape, ShapeLike
from mtf_models.mesh.layout import LayoutRules, layout_faults, tensor_layout
from mtf_models.mesh.mesh import Mesh

MESHES: tuple[str, ...] = ("all:8", "a:2;b:4")


class Placement(NamedTuple):
    """The text of a mesh and of its layout rules."""

    mesh: str
    layout: str

    def make(self) -> Mesh:
        """The mesh with these rules, on the default devices."""
        return Mesh(self.mesh, self.layout)

    def __str__(self) -> str:
        return f'mesh "{self.mesh}", layout "{self.layout}"' if self.mesh else "one device"


ONE_DEVICE = Placement("", "")

Fits = Callable[[Placement], bool]
"""Whether a placement is wanted."""


def admissible(placement: Placement, shapes: Iterable[ShapeLike]) -> bool:
    """Whether tensors of all these shapes can be laid out so."""
    axes = {d.name: d.size for d in Shape(placement.mesh)}
    rules = LayoutRules(placement.layout)
    return not any(
        layout_faults(shape, tensor_layout(shape, rules, axes), axes, "tensor")
        for shape in map(Shape, shapes)
    )


def every(shapes: Iterable[ShapeLike], mesh: str) -> Iterator[Placement]:
    """All placements on one mesh that split something, each dimension over an axis that divides it.

    Those that send two dimensions of one tensor to one axis are among them (`admissible`).

    Args:
        shapes: of all tensors that are to be laid out.
        mesh: axes and sizes, as text.
    """
    sizes: dict[str, list[int]] = {}
    for dim in itertools.chain.from_iterable(map(Shape, shapes)):
        sizes.setdefault(dim.name, []).append(dim.size)
    choices = [
        [None, *(axis.name for axis in Shape(mesh) if not any(n % axis.size for n in found))]
        for found in sizes.values()
    ]
    for chosen in itertools.product(*choices):
        pairs = zip(sizes, chosen, strict=True)
        layout = ",".join(f"{name}:{axis}" for name, axis in pairs if axis)
        if layout:
            yield Placement(mesh, layout)


def covering(
    shapes: Iterable[ShapeLike],
    meshes: Sequence[str] = MESHES,
    pairs: bool = True,
    fits: Fits | None = None,
) -> list[Placement]:
    """One device, and few placements that split the dimensions of tensors in every way.

    On each mesh each dimension is split over each axis in some placement, and any two dimensions
    that can be split at once are, over the same axis too where no tensor has both.

    Args:
        shapes: of all tensors that are to be laid out, results included.
        meshes: their axes and sizes, as text.
        pairs: False leaves the pairs to chance, which takes fewer placements.
        fits: what else a placement must be, for tensors whose shapes are not known here.
    """
    chosen = [ONE_DEVICE]
    for mesh in meshes:
        candidates = [p for p in _fitting(shapes, mesh) if fits is None or fits(p)]
        wanted = set().union(*(_facets(p, pairs) for p in candidates))
        while wanted:
            best = max(candidates, key=lambda p: (len(_facets(p, pairs) & wanted), len(p.layout)))
            chosen.append(best)
            wanted -= _facets(best, pairs)
    return chosen


def most_split(
    shapes: Iterable[ShapeLike], meshes: Sequence[str] = MESHES, fits: Fits | None = None
) -> list[Placement]:
    """One device, and on each mesh the placement that splits the most dimensions at once.

    Args:
        shapes: as for `covering`.
        meshes: as for `covering`.
        fits: as for `covering`.
    """
    chosen = [ONE_DEVICE]
    for mesh in meshes:
        ordered = sorted(_fitting(shapes, mesh), key=lambda p: -len(LayoutRules(p.layout).pairs))
        chosen += next(([p] for p in ordered if fits is None or fits(p)), [])
    return chosen


def all_admissible(
    shapes: Iterable[ShapeLike], meshes: Sequence[str] = MESHES, fits: Fits | None = None
) -> list[Placement]:
    """One device, and every placement on the meshes that the tensors can be laid out in.

    Args:
        shapes: as for `covering`.
        meshes: as for `covering`.
        fits: as for `covering`.
    """
    found = [p for mesh in meshes for p in _fitting(shapes, mesh) if fits is None or fits(p)]
    return [ONE_DEVICE, *found]


def _fitting(shapes: Iterable[ShapeLike], mesh: str) -> list[Placement]:
    known = [Shape(shape) for shape in shapes]
    return [p for p in every(known, mesh) if admissible(p, known)]


def _facets(placement: Placement, with_pairs: bool) -> set[tuple[object, ...]]:
    """What a placement covers: dimensions on axes, and pairs of split dimensions."""
    pairs = LayoutRules(placement.layout).pairs
    together = {(a, b, x == y) for (a, x), (b, y) in itertools.combinations(pairs, 2)}
    return {*pairs, *together} if with_pairs else set(pairs)
