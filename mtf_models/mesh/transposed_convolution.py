"""Transposed convolutions: learned ways to make spatial dimensions longer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mtf_models.mesh.convolution import check_filter
from mtf_models.mesh.dimension import Dimension, Shape
from mtf_models.mesh.einsum import einsum
from mtf_models.mesh.elementwise import add_n, zeros
from mtf_models.mesh.joining import stack, unstack
from mtf_models.mesh.reshape import rename_dimension, replace_dimensions, reshape, transpose
from mtf_models.mesh.shifting import shift
from mtf_models.mesh.slicing import pad, slice
from mtf_models.mesh.tensor import Tensor, operation


@operation
def conv2d_transpose(
    conv_input: Tensor, conv_filter: Tensor, strides: Sequence[int] | int = 2, padding: str = "SAME"
) -> Tensor:
    """The gradient of `conv2d` by its input: each entry is spread over a filter's width.

    Args:
        conv_input: [..., h, w, in].
        conv_filter: [fh, fw, out, in].
        strides: how far apart neighbours are in the result, for each dimension or for all.
        padding: "SAME" gives sizes times stride, "VALID" what the filter reaches over besides.

    Returns:
        [..., h, w, out], h and w longer.

    Raises:
        ShapeError: if the dimensions do not fit, the dtypes differ, or an option is unknown.
    """
    return _spread(2, conv_input, conv_filter, strides, padding)


@operation
def conv3d_transpose(
    conv_input: Tensor, conv_filter: Tensor, strides: Sequence[int] | int = 2, padding: str = "SAME"
) -> Tensor:
    """The gradient of `conv3d` by its input; see `conv2d_transpose`.

    Args:
        conv_input: [..., d, h, w, in].
        conv_filter: [fd, fh, fw, out, in].
        strides: as for `conv2d_transpose`.
        padding: as for `conv2d_transpose`.
    """
    return _spread(3, conv_input, conv_filter, strides, padding)


def _spread(
    rank: int, x: Tensor, kernel: Tensor, strides: Sequence[int] | int, padding: str
) -> Tensor:
    """Sums, for each place between two neighbours, the entries of the filter that meet there.

    Entry t of the filter takes entry i of the input to i * stride + t - cut, that is to place
    (t - cut) mod stride beside entry i + (t - cut) div stride.
    """
    steps = check_filter(rank, x, kernel, -1, padding, strides=strides)["strides"]
    names = x.shape.dimension_names[-rank - 1 : -1]
    sizes = [d.size for d in kernel.shape.dims[:rank]]
    excess = [max(f - s, 0) for f, s in zip(sizes, steps, strict=True)]
    same = padding == "SAME"
    cuts = [e // 2 if same else 0 for e in excess]
    results = [x.shape.get_dim_by_name(n).size * s for n, s in zip(names, steps, strict=True)]
    if not same:
        # Under another name a dimension is whole: its size on the way need not divide.
        for name, e, s in zip(names, excess, steps, strict=True):
            x = rename_dimension(x, name, f"{name}_whole")
            x = pad(x, [0, -(-e // s)], f"{name}_whole")
    spatial = x.shape.dims[-rank - 1 : -1]
    y = _interleaved(_places(x, kernel, sizes, steps, cuts), spatial, steps)
    if not same:
        for name, e, size in zip(names, excess, results, strict=True):
            y = slice(y, 0, size + e, f"{name}_whole")
            y = rename_dimension(y, f"{name}_whole", name)
    return y


def _places(
    x: Tensor, kernel: Tensor, sizes: Sequence[int], steps: Sequence[int], cuts: Sequence[int]
) -> list[Tensor]:
    """For each place between neighbours, in order of the last dimension first, its sum."""
    rank = len(sizes)
    spatial = x.shape.dims[-rank - 1 : -1]
    flat = Dimension("entries_of_filter", Shape(kernel.shape.dims[:rank]).size)
    entries = unstack(reshape(kernel, [flat, *kernel.shape.dims[rank:]]), flat)
    shape = Shape([*x.shape.dims[:-1], kernel.shape.dims[-2]])
    terms: dict[tuple[int, ...], list[Tensor]] = {}
    for at, entry in zip(itertools.product(*map(range, sizes)), entries, strict=True):
        y = einsum([x, entry], output_shape=shape)
        place = []
        for dim, t, stride, cut in zip(spatial, at, steps, cuts, strict=True):
            beside, between = divmod(t - cut, stride)
            y = shift(y, beside, dim, wrap=False)
            place.append(between)
        terms.setdefault(tuple(place), []).append(y)
    nothing = zeros(x.mesh, shape, x.dtype)
    return [
        add_n(terms[place]) if place in terms else nothing
        for place in itertools.product(*map(range, steps))
    ]


def _interleaved(
    places: list[Tensor], spatial: Sequence[Dimension], steps: Sequence[int]
) -> Tensor:
    """[..., spatial * stride, out]: the places between neighbours put in their order."""
    for dim, stride in zip(reversed(spatial), reversed(steps), strict=True):
        between = Dimension(f"{dim.name}_between", stride)
        joined = []
        for i in range(0, len(places), stride):
            y = stack(places[i : i + stride], between.name)
            dims = [d for d in y.shape if d != between]
            at = dims.index(dim)
            y = transpose(y, Shape([*dims[: at + 1], between, *dims[at + 1 :]]))
            joined.append(
                replace_dimensions(y, [dim, between], Dimension(dim.name, dim.size * stride))
            )
        places = joined
    (result,) = places
    return result
