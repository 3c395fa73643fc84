"""Convolutions over one, two or three spatial dimensions, any of which may be split."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_models.errors import refuse
from mtf_models.mesh.dimension import Dimension, Shape
from mtf_models.mesh.einsum import einsum
from mtf_models.mesh.elementwise import add_n
from mtf_models.mesh.joining import unstack
from mtf_models.mesh.reshape import rename_dimension, replace_dimensions, reshape
from mtf_models.mesh.shifting import halo_exchange
from mtf_models.mesh.slicing import pad, slice
from mtf_models.mesh.tensor import Tensor, make, operation, settle, unsplit


class Window(NamedTuple):
    """How a filter moves along one spatial dimension.

    Attributes:
        dim: the dimension.
        size: the width of the filter.
        stride: how far it moves from one result to the next.
        dilation: how far its entries are apart.
        before: how many zeros precede the first entry.
        after: how many follow the last.
    """

    dim: Dimension
    size: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def span(self) -> int:
        """How many entries one position of the filter reaches over."""
        return (self.size - 1) * self.dilation + 1

    @property
    def results(self) -> int:
        """How many positions the filter takes."""
        return (self.dim.size + self.before + self.after - self.span) // self.stride + 1

    @property
    def inside(self) -> str:
        """The name of the dimension while it must be whole."""
        return f"{self.dim.name}_of_block"


@operation
def conv1d(
    conv_input: Tensor,
    conv_filter: Tensor,
    strides: Sequence[int] | int = 1,
    padding: str = "SAME",
    dilations: Sequence[int] | int = 1,
) -> Tensor:
    """Convolves along one spatial dimension; see `conv2d`.

    Args:
        conv_input: [..., w, in].
        conv_filter: [fw, in, out].
        strides: as for `conv2d`.
        padding: as for `conv2d`.
        dilations: as for `conv2d`.
    """
    return _convolve(1, conv_input, conv_filter, strides, padding, dilations)


@operation
def conv2d(
    conv_input: Tensor,
    conv_filter: Tensor,
    strides: Sequence[int] | int = 1,
    padding: str = "SAME",
    dilations: Sequence[int] | int = 1,
) -> Tensor:
    """Convolves along two spatial dimensions (as learned filters do: without turning them round).

    Batch, channels and spatial dimensions may all be split. Along a split spatial dimension the
    devices exchange margins only, if padding is "SAME" and each part is a multiple of the stride;
    else the dimension is made whole.

    Args:
        conv_input: [..., h, w, in]; all before the spatial dimensions are batch dimensions.
        conv_filter: [fh, fw, in, out].
        strides: for each spatial dimension, or one for all.
        padding: "SAME": zeros are added so that each stride gives a result; or "VALID".
        dilations: how far the entries of the filter are apart, likewise.

    Returns:
        [..., h, w, out], h and w in the sizes that result.

    Raises:
        ShapeError: if the dimensions do not fit, the dtypes differ, or an option is unknown.
    """
    return _convolve(2, conv_input, conv_filter, strides, padding, dilations)


@operation
def conv3d(
    conv_input: Tensor,
    conv_filter: Tensor,
    strides: Sequence[int] | int = 1,
    padding: str = "SAME",
    dilations: Sequence[int] | int = 1,
) -> Tensor:
    """Convolves along three spatial dimensions; see `conv2d`.

    Args:
        conv_input: [..., d, h, w, in].
        conv_filter: [fd, fh, fw, in, out].
        strides: as for `conv2d`.
        padding: as for `conv2d`.
        dilations: as for `conv2d`.
    """
    return _convolve(3, conv_input, conv_filter, strides, padding, dilations)


def check_filter(
    rank: int, x: Tensor, kernel: Tensor, channels: int, padding: str, **steps: Sequence[int] | int
) -> dict[str, list[int]]:
    """Refuses what does not fit together in a convolution.

    Args:
        rank: the number of spatial dimensions.
        x: [..., spatial, in].
        kernel: has `rank` dimensions, then the channels.
        channels: the place of `in` among the dimensions of the filter.
        padding: "SAME" or "VALID".
        **steps: strides and dilations.

    Returns:
        The steps, one for each spatial dimension.

    Raises:
        ShapeError: listing all faults.
    """
    lists = {k: [v] * rank if isinstance(v, int) else list(v) for k, v in steps.items()}
    enough = x.shape.ndims > rank and kernel.shape.ndims == rank + 2
    channel = x.shape.dims[-1:] if enough else ()
    wrong = [k for k, v in lists.items() if len(v) != rank or min(v) < 1]
    clash = [d for d in kernel.shape.dims[:rank] if x.shape.has(d.name)] if enough else []
    refuse(
        f"convolution of {x.dtype.name} {x.shape} with {kernel.dtype.name} {kernel.shape}",
        [
            f"{rank} spatial dimensions and channels are needed" if not enough else None,
            f"the last dimension of the input is not {kernel.shape.dims[channels]} of the filter"
            if enough and channel != (kernel.shape.dims[channels],)
            else None,
            f"the input has {Shape(clash)} of the filter too; rename it" if clash else None,
            "the dtypes differ; cast one" if x.dtype != kernel.dtype else None,
            f'padding {padding!r} is neither "SAME" nor "VALID"'
            if padding not in ("SAME", "VALID")
            else None,
            *(f"{k} {lists[k]} are not {rank} whole numbers from 1" for k in wrong),
        ],
    )
    return lists


def _convolve(
    rank: int,
    x: Tensor,
    kernel: Tensor,
    strides: Sequence[int] | int,
    padding: str,
    dilations: Sequence[int] | int,
) -> Tensor:
    steps = check_filter(rank, x, kernel, -2, padding, strides=strides, dilations=dilations)
    spatial = x.shape.dims[-rank - 1 : -1]
    windows = [
        _window(dim, size.size, stride, dilation, padding)
        for dim, size, stride, dilation in zip(
            spatial, kernel.shape.dims[:rank], steps["strides"], steps["dilations"], strict=True
        )
    ]
    short = [f"{w.dim} is narrower than {w.span} of the filter" for w in windows if w.results < 1]
    refuse(f"convolution of {x.shape} with {kernel.shape}", short)
    out = kernel.shape.dims[-1]
    results = [Dimension(w.dim.name, w.results) for w in windows]
    shape = Shape([*x.shape.dims[: -rank - 1], *results, out])
    dense = all(w.dilation == 1 for w in windows)
    if dense and x.shape.ndims > rank + 1 and _only_first_is_split(x, kernel):
        return _on_one_batch(x, kernel, windows, shape, padding)
    return _by_entries(x, kernel, windows, shape)


def _window(dim: Dimension, size: int, stride: int, dilation: int, padding: str) -> Window:
    window = Window(dim, size, stride, dilation, 0, 0)
    if padding == "VALID":
        return window
    results = -(-dim.size // stride)
    zeros = max((results - 1) * stride + window.span - dim.size, 0)
    return window._replace(before=zeros // 2, after=zeros - zeros // 2)


def _only_first_is_split(x: Tensor, kernel: Tensor) -> bool:
    """Whether TensorFlow's own convolution leaves nothing to be done twice on a mesh.

    With dilation it would rearrange the input by operations that do not run on one.
    """
    return not any(x.mesh.splits(d) > 1 for d in {*x.shape.dims[1:], *kernel.shape.dims})


def _on_one_batch(
    x: Tensor, kernel: Tensor, windows: list[Window], shape: Shape, padding: str
) -> Tensor:
    """TensorFlow's convolution, with all batch dimensions in one."""
    sizes = x.shape.to_integer_list[-len(windows) - 1 :]
    value = tf.nn.convolution(
        tf.reshape(unsplit(x, x.shape.dims[1:]), [-1, *sizes]),
        kernel.value,
        strides=[w.stride for w in windows],
        padding=padding,
        # Unless it is said, the gradient of three spatial dimensions is not found eagerly.
        data_format=("NWC", "NHWC", "NDHWC")[len(windows) - 1],
    )
    return settle(x.mesh, tf.reshape(value, shape.to_integer_list), shape, shape.dims[1:])


def _by_entries(x: Tensor, kernel: Tensor, windows: list[Window], shape: Shape) -> Tensor:
    """The sum over the entries of the filter of a product each: every split stays."""
    blocks: dict[Dimension, int] = {}
    for window in windows:
        x, blocks[window.dim] = _with_borders(x, window)
    at = [range(0, w.size * w.dilation, w.dilation) for w in windows]
    rank = len(windows)
    flat = Dimension("entries_of_filter", Shape(kernel.shape.dims[:rank]).size)
    entries = unstack(reshape(kernel, [flat, *kernel.shape.dims[rank:]]), flat)
    counts = [w.results // blocks[w.dim] for w in windows]
    terms = []
    for begins, entry in zip(itertools.product(*at), entries, strict=True):
        part = _every(x, windows, begins, counts)
        kept = Shape([*part.shape.dims[:-1], entry.shape.dims[-1]])
        terms.append(einsum([part, entry], output_shape=kept))
    y = add_n(terms)
    for window, count in zip(windows, counts, strict=True):
        inside = Dimension(window.inside, count)
        if blocks[window.dim] > 1:
            joined = Dimension(window.dim.name, window.results)
            y = replace_dimensions(
                y, [Dimension(window.dim.name, blocks[window.dim]), inside], joined
            )
        else:
            y = rename_dimension(y, inside.name, window.dim.name)
    return y


def _with_borders(x: Tensor, window: Window) -> tuple[Tensor, int]:
    """The input with its zeros, each part of a split dimension with its margins.

    Returns:
        The tensor, whose dimension is called `window.inside`, and into how many blocks it is cut;
        the blocks have the name of the dimension.
    """
    dim, parts = window.dim, x.mesh.splits(window.dim)
    exact = window.results * window.stride == dim.size and dim.size % (parts * window.stride) == 0
    if parts == 1 or not exact:
        x = rename_dimension(x, dim.name, window.inside)
        return pad(x, [window.before, window.after], window.inside), 1
    blocks = Dimension(dim.name, parts)
    inside = Dimension(window.inside, dim.size // parts)
    x = replace_dimensions(x, dim, [blocks, inside])
    margin = max(window.before, window.after)
    x = halo_exchange(x, blocks, inside, margin)
    length = inside.size + window.before + window.after
    return slice(x, margin - window.before, length, inside.name), parts


def _every(
    x: Tensor, windows: list[Window], begins: Sequence[int], counts: Sequence[int]
) -> Tensor:
    """What one entry of the filter meets: each stride's entry from `begins` on."""
    inside = [window.inside for window in windows]
    begin = dict(zip(inside, begins, strict=True))
    step = {w.inside: w.stride for w in windows}
    count = dict(zip(inside, counts, strict=True))
    shape = Shape([Dimension(d.name, count.get(d.name, d.size)) for d in x.shape])
    first = [begin.get(d.name, 0) for d in x.shape]
    stride = [step.get(d.name, 1) for d in x.shape]
    last = [b + (d.size - 1) * s + 1 for b, d, s in zip(first, shape, stride, strict=True)]
    return make(x.mesh, tf.strided_slice(x.value, first, last, stride), shape)
