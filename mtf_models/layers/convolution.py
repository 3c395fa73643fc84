"""Convolutional layers: whole, in blocks, separable and transposed."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError, refuse
from mtf_models.layers.dense import dense
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType, scopes
from mtf_models.mesh.initializers import Initializer, random_normal, zeros


def conv1d(
    x: Tensor,
    output_dim: Dimension,
    filter_size: int = 3,
    stride: int = 1,
    padding: str = "SAME",
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv2d",
) -> Tensor:
    """Convolves along one dimension, with a kernel [fh=1, fw, in, out] as in the original.

    Args:
        x: [..., w, in].
        output_dim: takes the place of `in`.
        filter_size: the width of the filter.
        stride: how far it moves from one result to the next.
        padding: "SAME" or "VALID".
        filter_initializer: as for `conv2d`.
        variable_dtype: as for `conv2d`.
        name: the variable scope.
    """
    kernel = _kernel(
        x,
        [1, filter_size],
        x.shape.dims[-1:],
        [output_dim],
        filter_initializer,
        variable_dtype,
        name,
    )
    return mtf.conv1d(x, mtf.unstack(kernel, kernel.shape.dims[0])[0], [stride], padding)


def conv2d(
    x: Tensor,
    output_dim: Dimension,
    filter_size: Sequence[int] = (3, 3),
    strides: Sequence[int] = (1, 1),
    padding: str = "SAME",
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv2d",
) -> Tensor:
    """Convolves along two dimensions, with the variable `<name>/kernel` [fh, fw, in, out].

    Args:
        x: [..., h, w, in].
        output_dim: takes the place of `in`.
        filter_size: height and width of the filter.
        strides: how far it moves from one result to the next.
        padding: "SAME" or "VALID".
        filter_initializer: by default Glorot uniform.
        variable_dtype: dtypes of the kernel; by default float32, activations as `x`.
        name: the variable scope.
    """
    kernel = _kernel(
        x, filter_size, x.shape.dims[-1:], [output_dim], filter_initializer, variable_dtype, name
    )
    return mtf.conv2d(x, kernel, strides, padding)


def conv3d(
    x: Tensor,
    output_dim: Dimension,
    filter_size: Sequence[int] = (3, 3, 3),
    strides: Sequence[int] = (1, 1, 1),
    padding: str = "SAME",
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv3d",
) -> Tensor:
    """Convolves along three dimensions, [..., d, h, w, in], with a kernel [fd, fh, fw, in, out].

    Args:
        x: [..., d, h, w, in].
        output_dim: takes the place of `in`.
        filter_size: of each dimension.
        strides: of each dimension.
        padding: "SAME" or "VALID".
        filter_initializer: as for `conv2d`.
        variable_dtype: as for `conv2d`.
        name: the variable scope.
    """
    kernel = _kernel(
        x, filter_size, x.shape.dims[-1:], [output_dim], filter_initializer, variable_dtype, name
    )
    return mtf.conv3d(x, kernel, strides, padding)


def conv2d_with_blocks(
    x: Tensor,
    output_dim: Dimension,
    filter_size: Sequence[int] = (3, 3),
    strides: Sequence[int] = (1, 1),
    padding: str = "SAME",
    h_blocks_dim: Dimension | None = None,
    w_blocks_dim: Dimension | None = None,
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv2d",
) -> Tensor:
    """`conv2d` of an image that is cut into blocks, which exchange margins.

    Args:
        x: [batch, h_blocks, w_blocks, h, w, in], either of the blocks' dimensions or both.
        output_dim: takes the place of `in`.
        filter_size: odd height and width.
        strides: 1 each, since every block keeps its size.
        padding: "SAME".
        h_blocks_dim: the blocks along the height, or None for one.
        w_blocks_dim: the blocks along the width, or None for one.
        filter_initializer: as for `conv2d`.
        variable_dtype: as for `conv2d`.
        name: the variable scope.

    Raises:
        ShapeError: for another padding, stride or an even filter.
    """
    _check_blocks("conv2d_with_blocks", filter_size, strides, padding)
    blocks = [h_blocks_dim, w_blocks_dim]
    x = _with_margins(x, x.shape.dims[-3:-1], blocks, filter_size)
    return conv2d(
        x, output_dim, filter_size, strides, "VALID", filter_initializer, variable_dtype, name
    )


def conv3d_with_blocks(
    x: Tensor,
    output_dim: Dimension,
    filter_size: Sequence[int] = (3, 3, 3),
    strides: Sequence[int] = (1, 1, 1),
    padding: str = "SAME",
    d_blocks_dim: Dimension | None = None,
    h_blocks_dim: Dimension | None = None,
    filter_initializer: Initializer | None = None,
    variable_dtype: VariableDType | None = None,
    name: str = "conv3d",
) -> Tensor:
    """`conv3d` of a volume that is cut into blocks along depth and height; see the two above.

    Args:
        x: [batch, d_blocks, h_blocks, d, h, w, in], either of the blocks' dimensions or both.
        output_dim: takes the place of `in`.
        filter_size: odd depth, height and width.
        strides: 1 each.
        padding: "SAME".
        d_blocks_dim: the blocks along the depth, or None for one.
        h_blocks_dim: the blocks along the height, or None for one.
        filter_initializer: as for `conv2d`.
        variable_dtype: as for `conv2d`.
        name: the variable scope.

    Raises:
        ShapeError: for another padding, stride or an even filter.
    """
    _check_blocks("conv3d_with_blocks", filter_size, strides, padding)
    blocks = [d_blocks_dim, h_blocks_dim, None]
    x = _with_margins(x, x.shape.dims[-4:-1], blocks, filter_size)
    return conv3d(
        x, output_dim, filter_size, strides, "VALID", filter_initializer, variable_dtype, name
    )


def separable_conv1d(
    x: Tensor,
    output_dim: Dimension,
    min_relative_pos: int = -1,
    max_relative_pos: int = 1,
    depthwise_filter_initializer_scale: float = 1.0,
    pointwise_filter_initializer_scale: float = 1.0,
    name: str = "separable_conv1d",
    use_bias: bool = True,
    kernel_depth_weights: Sequence[Tensor] | None = None,
    variable_dtype: VariableDType | None = None,
) -> Tensor:
    """A filter of its own for each channel, then a dense map between channels.

    Args:
        x: [..., length, in].
        output_dim: takes the place of `in`.
        min_relative_pos: the first position that a result sees, relative to its own.
        max_relative_pos: the last.
        depthwise_filter_initializer_scale: the standard deviation of the filters' initial values
            times the square root of their width.
        pointwise_filter_initializer_scale: the same of the dense map, with the channels.
        name: the variable scope; in it `depthwise_conv_hack/depthwise_dense_<i>/kernel` [in] for
            each position, and `pointwise_dense/kernel` [in, out], with biases for the first
            position's filter and the map.
        use_bias: whether there are biases.
        kernel_depth_weights: filters for the variables' place, for each position [..., length, in].
        variable_dtype: dtypes of the variables; by default float32, activations as `x`.

    Raises:
        ShapeError: if there are no positions, or not one of `kernel_depth_weights` for each.
    """
    channels = x.shape.dims[-1]
    positions = range(min_relative_pos, max_relative_pos + 1)
    given = kernel_depth_weights
    refuse(
        f"separable_conv1d of {x.shape}",
        [
            f"there is no position from {min_relative_pos} to {max_relative_pos}"
            if not positions
            else None,
            f"there are {len(given)} kernel_depth_weights for {len(positions)} positions"
            if given is not None and len(given) != len(positions)
            else None,
        ],
    )
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    scale = depthwise_filter_initializer_scale / len(positions) ** 0.5
    with mtf.variable_scope(name):
        y = _depthwise(x, positions, given, use_bias, dtype, random_normal(scale))
        return dense(
            y,
            [output_dim],
            use_bias=use_bias,
            variable_dtype=dtype,
            kernel_initializer=random_normal(
                pointwise_filter_initializer_scale / channels.size**0.5
            ),
            name="pointwise_dense",
        )


def _depthwise(
    x: Tensor,
    positions: Sequence[int],
    given: Sequence[Tensor] | None,
    use_bias: bool,
    dtype: VariableDType,
    initializer: Initializer,
) -> Tensor:
    """The sum of shifted inputs, each channel times a number for each position."""
    length, channels = x.shape.dims[-2:]
    terms = []
    for i, position in enumerate(positions):
        shifted = mtf.shift(x, -position, length, wrap=False)
        # The biases of the other positions would be added to that of the first.
        with_bias = use_bias and i == 0
        name = f"depthwise_conv_hack/depthwise_dense_{i}"
        if given is not None:
            terms.append(mtf.multiply(shifted, given[i], output_shape=x.shape))
            if with_bias:
                with mtf.variable_scope(name):
                    bias = mtf.get_variable(x.mesh, "bias", Shape([channels]), dtype, zeros())
                terms[0] += bias
            continue
        terms.append(
            dense(
                shifted,
                new_dims=[],
                reduced_dims=[],
                expert_dims=[channels],
                use_bias=with_bias,
                variable_dtype=dtype,
                kernel_initializer=initializer,
                name=name,
            )
        )
    return mtf.add_n(terms)


def _kernel(
    x: Tensor,
    sizes: Sequence[int],
    before: Sequence[Dimension],
    after: Sequence[Dimension],
    initializer: Initializer | None,
    variable_dtype: VariableDType | None,
    name: str,
) -> Tensor:
    """The variable `<name>/kernel`: filter dimensions, then channels.

    Raises:
        ConfigError: in an ensemble.
    """
    if scopes.stacked_dims():
        raise ConfigError(
            f"{scopes.full_name(name)} is a convolution with one kernel for all of its input, "
            "which an ensemble cannot have: bind Unitransformer.ensemble to None, or another layer "
            "(SeparableConv1DLayer can be in one)."
        )
    names = ("fd", "fh", "fw")[-len(sizes) :]
    dims = [Dimension(n, size) for n, size in zip(names, sizes, strict=True)]
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    with mtf.variable_scope(name):
        shape = Shape([*dims, *before, *after])
        return mtf.get_variable(x.mesh, "kernel", shape, dtype, initializer)


def _check_blocks(
    layer: str, filter_size: Sequence[int], strides: Sequence[int], padding: str
) -> None:
    even = any(size % 2 == 0 for size in filter_size)
    refuse(
        layer,
        [
            f'padding {padding!r} is not "SAME"' if padding != "SAME" else None,
            f"filter {tuple(filter_size)} has an even size" if even else None,
            f"strides {tuple(strides)} are not 1" if set(strides) != {1} else None,
        ],
    )


def _with_margins(
    x: Tensor,
    spatial: Sequence[Dimension],
    blocks: Sequence[Dimension | None],
    filter_size: Sequence[int],
) -> Tensor:
    for dim, block, size in zip(spatial, blocks, filter_size, strict=True):
        x = mtf.halo_exchange(x, block, dim, size // 2)
    return x
