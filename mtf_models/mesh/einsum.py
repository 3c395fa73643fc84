"""Products of named tensors, summed over named dimensions."""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence

from mtf_models.errors import refuse
from mtf_models.mesh.dimension import (
    Dimension,
    Shape,
    ShapeLike,
    convert_to_dimension,
    convert_to_shape,
    two_sizes,
)
from mtf_models.mesh.layout import clashing, tensor_layout
from mtf_models.mesh.reduce import reduce_sum
from mtf_models.mesh.reshape import broadcast, transpose
from mtf_models.mesh.tensor import Tensor, operation


@operation
def einsum(
    xs: Sequence[Tensor],
    output_shape: ShapeLike | None = None,
    reduced_dims: Sequence[Dimension] | None = None,
) -> Tensor:
    """Multiplies tensors by dimension name and sums out the dimensions that the result lacks.

    Args:
        xs: one or more tensors of one dtype.
        output_shape: the shape of the result; dimensions that no operand has are broadcast.
        reduced_dims: instead of `output_shape`, what to sum out. With neither, the dimensions that
            occur in more than one operand are summed out. The result then has the remaining
            dimensions in the order in which they first occur.

    Returns:
        A tensor of `output_shape`.

    Raises:
        ShapeError: if the dtypes differ, a name has two sizes, or `reduced_dims` occur nowhere or
            contradict `output_shape`.
        LayoutError: if the result cannot be laid out.
    """
    xs = list(xs)
    reduced = None if reduced_dims is None else [convert_to_dimension(d) for d in reduced_dims]
    output = _output_shape(xs, convert_to_shape(output_shape), reduced)
    xs[0].mesh.layout(output)
    xs = [_without_lone_dims(xs, i, output) for i in range(len(xs))]
    whole: set[Dimension] = set()
    while len(xs) > 1:
        a, b, *rest = _cheapest_pair_first(xs, output)
        kept = _kept(a, b, rest, output)
        # Dimensions that meet in no operand and not in the result may meet here, on one axis.
        whole.update(_clashing(a, kept))
        xs = [_contract(a, b, kept, whole), *rest]
    present = Shape([d for d in output if d in xs[0].shape])
    return broadcast(transpose(xs[0], present), output)


matmul = einsum


def _contract(a: Tensor, b: Tensor, output: Shape, whole: set[Dimension]) -> Tensor:
    """The product of two, laid out by the rules but with `whole` unsplit."""
    mesh = a.mesh
    letters = dict(zip(_union(a, b), string.ascii_letters, strict=False))
    terms = ["".join(letters[d] for d in shape) for shape in (a.shape, b.shape, output)]
    values = [mesh.pin(x.value, x.shape, whole) if whole else x.value for x in (a, b)]
    value = mesh.engine.product(*values, terms)
    return Tensor(mesh, output, mesh.pin(value, output, whole))


def _cheapest_pair_first(xs: list[Tensor], output: Shape) -> list[Tensor]:
    """The operands, those two first whose product can be laid out and takes fewest operations."""

    def cost(pair: tuple[int, int]) -> tuple[bool, int]:
        a, b, *rest = ordered(pair)
        return bool(_clashing(a, _kept(a, b, rest, output))), _union(a, b).size

    def ordered(pair: tuple[int, int]) -> list[Tensor]:
        return [xs[i] for i in pair] + [x for i, x in enumerate(xs) if i not in pair]

    return ordered(min(itertools.combinations(range(len(xs)), 2), key=cost))


def _clashing(x: Tensor, shape: Shape) -> list[Dimension]:
    return clashing(shape, tensor_layout(shape, x.mesh.rules, x.mesh.axes))


def _union(a: Tensor, b: Tensor) -> Shape:
    return a.shape + (b.shape - a.shape.dims)


def _kept(a: Tensor, b: Tensor, rest: list[Tensor], output: Shape) -> Shape:
    """The dimensions of a product of two that the result or another operand still needs.

    The last product comes in the order of the result, so that nothing is transposed after it.
    """
    needed = set(output.dims).union(*(x.shape.dims for x in rest))
    found = _union(a, b).dims
    order = found if rest else output.dims
    return Shape([d for d in order if d in found and d in needed])


def _without_lone_dims(xs: list[Tensor], index: int, output: Shape) -> Tensor:
    """Sums out what occurs in this operand only: on a mesh einsum itself would get it wrong."""
    x = xs[index]
    others = {d for i, other in enumerate(xs) if i != index for d in other.shape}
    kept = Shape([d for d in x.shape if d in output or d in others])
    return x if kept == x.shape else reduce_sum(x, output_shape=kept)


def _output_shape(
    xs: list[Tensor], output: Shape | None, reduced: Sequence[Dimension] | None
) -> Shape:
    """The shape of the result, or one error that lists all that does not fit together."""
    found = list(dict.fromkeys(d for x in xs for d in x.shape))
    dtypes = sorted({x.dtype.name for x in xs})
    absent = [str(d) for d in reduced or () if d not in found]
    kept = [str(d) for d in output or () if d in (reduced or ())]
    refuse(
        f"einsum of {', '.join(str(x.shape) for x in xs)}"
        + ("" if output is None else f" to {output}"),
        [
            f"the dtypes {' and '.join(dtypes)} are mixed; cast operands" if dtypes[1:] else None,
            *two_sizes([*(x.shape for x in xs), output or Shape()]),
            f"no operand has {', '.join(absent)} to reduce" if absent else None,
            f"the output keeps {', '.join(kept)}, which is to be reduced" if kept else None,
        ],
    )
    if output is not None:
        return output
    if reduced is None:
        reduced = [d for d in found if sum(d in x.shape for x in xs) > 1]
    return Shape([d for d in found if d not in reduced])
