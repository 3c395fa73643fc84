"""Transposed convolutional layers: learned up-sampling."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import Initializer


def conv2d_transpose(
    x: Tensor,
    output_dim: Dimension,
    filter_size: Sequence[int] = (2, 2),
    strides: Sequence[int] = (2, 2),
    padding: str = "SAME",
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv2d_transpose",
) -> Tensor:
    """Makes two dimensions `strides` times as long, with a kernel [fh, fw, out, in].

    Args:
        x: [..., h, w, in].
        output_dim: takes the place of `in`.
        filter_size: height and width of the filter.
        strides: how far apart neighbours are in the result.
        padding: "SAME" or "VALID".
        filter_initializer: by default Glorot uniform.
        variable_dtype: dtypes of the kernel; by default float32, activations as `x`.
        name: the variable scope.
    """
    kernel = _kernel(x, output_dim, filter_size, filter_initializer, variable_dtype, name)
    return mtf.conv2d_transpose(x, kernel, strides, padding)


def conv3d_transpose(
    x: Tensor,
    output_dim: Dimension,
    filter_size: Sequence[int] = (2, 2, 2),
    strides: Sequence[int] = (2, 2, 2),
    padding: str = "SAME",
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv3d_transpose",
) -> Tensor:
    """Makes three dimensions `strides` times as long, with a kernel [fd, fh, fw, out, in].

    Args:
        x: [..., d, h, w, in].
        output_dim: takes the place of `in`.
        filter_size: of each dimension.
        strides: of each dimension.
        padding: "SAME" or "VALID".
        filter_initializer: by default Glorot uniform.
        variable_dtype: dtypes of the kernel; by default float32, activations as `x`.
        name: the variable scope.
    """
    kernel = _kernel(x, output_dim, filter_size, filter_initializer, variable_dtype, name)
    return mtf.conv3d_transpose(x, kernel, strides, padding)


def conv2d_transpose_with_blocks(
    x: Tensor,
    output_dim: Dimension,
    filter_size: Sequence[int] = (2, 2),
    strides: Sequence[int] = (2, 2),
    padding: str = "SAME",
    h_blocks_dim: Dimension | None = None,
    w_blocks_dim: Dimension | None = None,
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv2d_transpose",
) -> Tensor:
    """`conv2d_transpose` of an image that is cut into blocks.

    Args:
        x: [batch, h_blocks, w_blocks, h, w, in], either of the blocks' dimensions or both.
        output_dim: takes the place of `in`.
        filter_size: height and width of the filter.
        strides: how far apart neighbours are in the result.
        padding: "SAME".
        h_blocks_dim: the blocks along the height, or None for one.
        w_blocks_dim: the blocks along the width, or None for one.
        filter_initializer: as for `conv2d_transpose`.
        variable_dtype: as for `conv2d_transpose`.
        name: the variable scope.

    Raises:
        ShapeError: for another padding.
    """
    kernel = _kernel(x, output_dim, filter_size, filter_initializer, variable_dtype, name)
    blocks = [h_blocks_dim, w_blocks_dim]
    return _in_blocks(mtf.conv2d_transpose, x, kernel, strides, padding, blocks)


def conv3d_transpose_with_blocks(
    x: Tensor,
    output_dim: Dimension,
    filter_size: Sequence[int] = (2, 2, 2),
    strides: Sequence[int] = (2, 2, 2),
    padding: str = "SAME",
    d_blocks_dim: Dimension | None = None,
    h_blocks_dim: Dimension | None = None,
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv3d_transpose",
) -> Tensor:
    """`conv3d_transpose` of a volume that is cut into blocks along depth and height.

    Args:
        x: [batch, d_blocks, h_blocks, d, h, w, in], either of the blocks' dimensions or both.
        output_dim: takes the place of `in`.
        filter_size: of each dimension.
        strides: of each dimension.
        padding: "SAME".
        d_blocks_dim: the blocks along the depth, or None for one.
        h_blocks_dim: the blocks along the height, or None for one.
        filter_initializer: as for `conv2d_transpose`.
        variable_dtype: as for `conv2d_transpose`.
        name: the variable scope.

    Raises:
        ShapeError: for another padding.
    """
    kernel = _kernel(x, output_dim, filter_size, filter_initializer, variable_dtype, name)
    blocks = [d_blocks_dim, h_blocks_dim, None]
    return _in_blocks(mtf.conv3d_transpose, x, kernel, strides, padding, blocks)


def _in_blocks(
    function, x: Tensor, kernel: Tensor, strides: Sequence[int], padding: str, blocks: Sequence
) -> Tensor:
    """Each block with as many neighbours as the filter reaches, less what came of these."""
    refuse(
        "a transposed convolution with blocks",
        [f'padding {padding!r} is not "SAME"' if padding != "SAME" else None],
    )
    rank = len(blocks)
    spatial = x.shape.dims[-rank - 1 : -1]
    filters = kernel.shape.dims[:rank]
    margins = [-(-max(f.size - s, 0) // s) for f, s in zip(filters, strides, strict=True)]
    for dim, block, margin in zip(spatial, blocks, margins, strict=True):
        x = mtf.halo_exchange(x, block, dim, margin) if margin else x
    y = function(x, kernel, strides, padding)
    for dim, margin, stride in zip(spatial, margins, strides, strict=True):
        y = mtf.slice(y, margin * stride, dim.size * stride, dim.name) if margin else y
    return y


def _kernel(
    x: Tensor,
    output_dim: Dimension,
    sizes: Sequence[int],
    initializer: Initializer | None,
    variable_dtype: VariableDType | None,
    name: str,
) -> Tensor:
    names = ("fd", "fh", "fw")[-len(sizes) :]
    dims = [Dimension(n, size) for n, size in zip(names, sizes, strict=True)]
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    with mtf.variable_scope(name):
        shape = Shape([*dims, output_dim, x.shape.dims[-1]])
        return mtf.get_variable(x.mesh, "kernel", shape, dtype, initializer)
