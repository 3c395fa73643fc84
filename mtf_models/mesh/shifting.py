"""Moving entries along a dimension, and exchanging margins between blocks."""

from __future__ import annotations

import numbers

import tensorflow as tf

from mtf_models.errors import ShapeError, refuse
from mtf_models.mesh.dimension import Dimension, DimensionLike, Shape, convert_to_dimension
from mtf_models.mesh.elementwise import binary_shape, cast, mod, sub, zeros_like
from mtf_models.mesh.indexing import gather, mtf_range
from mtf_models.mesh.joining import concat
from mtf_models.mesh.reshape import rename_dimension
from mtf_models.mesh.size import Size
from mtf_models.mesh.slicing import slice
from mtf_models.mesh.tensor import Tensor, operation, settle, size_value, unsplit


@operation
def shift(x: Tensor, offset: int, dim: DimensionLike, wrap: bool) -> Tensor:
    """Moves entries by `offset` to higher indices along `dim`.

    Args:
        x: any tensor.
        offset: how far; negative to lower indices.
        dim: the dimension.
        wrap: whether what leaves at one end enters at the other; else zeros enter.

    Raises:
        ShapeError: if `x` has no such dimension, or the offset is no whole number.
    """
    dim = convert_to_dimension(dim)
    axis = x.shape.axis(dim)
    if not isinstance(offset, numbers.Integral):
        raise ShapeError(
            f"mtf.shift moves by whole numbers, not by {offset!r}; mtf.dynamic_shift moves by "
            "tensors of them."
        )
    step = offset % dim.size if wrap else max(min(offset, dim.size), -dim.size)
    if step == 0:
        return x
    moved, left = _cut(unsplit(x, [dim]), axis, dim.size - step if step > 0 else -step, dim.size)
    if not wrap:
        moved, left = (moved, tf.zeros_like(left)) if step > 0 else (tf.zeros_like(moved), left)
    return settle(x.mesh, tf.concat([left, moved], axis), x.shape, [dim])


@operation
def dynamic_shift(x: Tensor, offset: Tensor, dim: DimensionLike, wrap: bool) -> Tensor:
    """Moves entries along `dim` by offsets that are computed.

    Args:
        x: any tensor.
        offset: integers; each element of its dimensions moves its own part of `x`.
        dim: the dimension, which `offset` lacks.
        wrap: whether what leaves at one end enters at the other; else zeros enter.

    Returns:
        The shape of `x`, with what it lacks of `offset` at the end.

    Raises:
        ShapeError: if `x` lacks `dim`, `offset` has it, or is not of integers.
    """
    dim = convert_to_dimension(dim)
    refuse(
        f"dynamic_shift of {x.shape} by {offset.dtype.name} {offset.shape} along {dim}",
        [
            f"the tensor has no {dim}" if dim not in x.shape else None,
            f"the offset has {dim.name} too" if offset.shape.has(dim.name) else None,
            "the offset is not of integers" if not offset.dtype.is_integer else None,
        ],
    )
    offset = cast(offset, tf.int64 if offset.dtype.size > 4 else tf.int32)
    source = sub(mtf_range(x.mesh, dim, offset.dtype), offset)
    if wrap:
        source = mod(source, dim.size)
    before = f"{dim.name}_before_shift"
    shape = binary_shape(x.shape, offset.shape)
    shape = x.shape + [d for d in shape if d not in x.shape]
    renamed = rename_dimension(x, dim.name, before)
    return gather(renamed, source, Dimension(before, dim.size), output_shape=shape)


@operation
def halo_exchange(
    x: Tensor,
    blocks_dim: DimensionLike | None,
    block_size_dim: DimensionLike,
    halo_size: int,
    wrap: bool = False,
) -> Tensor:
    """Adds to each block the margins of the blocks beside it.

    Blocks may be wider or narrower than the margins, which then come from several blocks.

    Args:
        x: has both dimensions.
        blocks_dim: the blocks, one beside the other; None if there is a single one.
        block_size_dim: the positions inside a block.
        halo_size: how many positions are added at each end.
        wrap: whether the first block lies beside the last; else there are zeros beyond both.

    Returns:
        The shape of `x` with `block_size_dim` longer by twice `halo_size`.

    Raises:
        ShapeError: if `x` lacks a dimension, or the margin is negative.
    """
    return _with_margins(x, blocks_dim, block_size_dim, (halo_size, halo_size), wrap)


@operation
def left_halo_exchange(
    x: Tensor,
    blocks_dim: DimensionLike | None,
    block_size_dim: DimensionLike,
    halo_size: int,
    wrap: bool = False,
) -> Tensor:
    """Like `halo_exchange`, with the margin before each block only."""
    return _with_margins(x, blocks_dim, block_size_dim, (halo_size, 0), wrap)


def _with_margins(
    x: Tensor,
    blocks: DimensionLike | None,
    size: DimensionLike,
    margins: tuple[int, int],
    wrap: bool,
) -> Tensor:
    blocks, size = convert_to_dimension(blocks), convert_to_dimension(size)
    lacking = Shape([d for d in (blocks, size) if d is not None and d not in x.shape])
    refuse(
        f"halo exchange of {x.shape}",
        [
            f"it has no {', '.join(map(str, lacking))}" if lacking.ndims else None,
            f"a margin of {min(margins)} is negative" if min(margins) < 0 else None,
        ],
    )
    # Under another name the positions of a block are whole: a part of them need not divide.
    inside = Dimension(f"{size.name}_of_block", size.size)
    x = rename_dimension(x, size.name, inside.name)
    parts = [x]
    for toward, margin in zip((1, -1), margins, strict=True):
        beside = _beside(x, blocks, inside, toward * margin, wrap)
        parts = [*reversed(beside), *parts] if toward > 0 else [*parts, *beside]
    return rename_dimension(concat(parts, inside.name), inside.name, size.name)


def _beside(
    x: Tensor, blocks: Dimension | None, size: Dimension, margin: int, wrap: bool
) -> list[Tensor]:
    """The positions beside each block, nearest first: before it, or after for a negative margin."""
    toward = 1 if margin > 0 else -1
    whole, rest = divmod(abs(margin), size.size)

    def neighbour(part: Tensor, distance: int) -> Tensor:
        if blocks is not None:
            return shift(part, toward * distance, blocks, wrap)
        return part if wrap else zeros_like(part)

    parts = [neighbour(x, n) for n in range(1, whole + 1)]
    if rest:
        edge = slice(x, size.size - rest if toward > 0 else 0, rest, size.name)
        parts.append(neighbour(edge, whole + 1))
    return parts


def _cut(
    value: tf.Tensor, axis: int, at: int | Size, size: int | Size
) -> tuple[tf.Tensor, tf.Tensor]:
    """Both parts of a value cut along one axis (`tf.split` does not run on a split dimension)."""
    # -1 is all there is, where that is known only when a graph runs.
    sizes = [-1 if n is None else n for n in value.shape.as_list()]
    begin: list[int | tf.Tensor] = [0] * len(sizes)
    before, after = size_value(at), size_value(size - at)
    first = tf.slice(value, begin, sizes[:axis] + [before] + sizes[axis + 1 :])
    begin[axis] = before
    return first, tf.slice(value, begin, sizes[:axis] + [after] + sizes[axis + 1 :])
