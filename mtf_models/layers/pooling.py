"""Pooling over windows that do not overlap, and means of neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.mesh import Dimension, Tensor
from mtf_models.mesh.pooling import Reduction


def max_pool2d(x: Tensor, ksize: Sequence[int] = (2, 2)) -> Tensor:
    """The largest entry of each window of the image [..., h, w, channels].

    The gradient goes to the largest entries, shared evenly where several are equal.

    Args:
        x: [..., h, w, channels].
        ksize: height and width of the windows, which divide the image.

    Raises:
        ShapeError: if they do not.
    """
    return _pool(x, ksize, 2, mtf.reduce_max)


def avg_pool2d(x: Tensor, ksize: Sequence[int] = (2, 2)) -> Tensor:
    """The mean of each window of the image [..., h, w, channels].

    Args:
        x: [..., h, w, channels].
        ksize: height and width of the windows, which divide the image.

    Raises:
        ShapeError: if they do not.
    """
    return _pool(x, ksize, 2, mtf.reduce_mean)


def max_pool3d(x: Tensor, ksize: Sequence[int] = (2, 2, 2)) -> Tensor:
    """The largest entry of each window of the volume [..., d, h, w, channels].

    Args:
        x: [..., d, h, w, channels].
        ksize: the sizes of the windows, which divide the volume.

    Raises:
        ShapeError: if they do not.
    """
    return _pool(x, ksize, 3, mtf.reduce_max)


def avg_pool3d(x: Tensor, ksize: Sequence[int] = (2, 2, 2)) -> Tensor:
    """The mean of each window of the volume [..., d, h, w, channels].

    Args:
        x: [..., d, h, w, channels].
        ksize: the sizes of the windows, which divide the volume.

    Raises:
        ShapeError: if they do not.
    """
    return _pool(x, ksize, 3, mtf.reduce_mean)


def compress_mean(x: Tensor, dim: Dimension, compression_factor: int) -> Tensor:
    """The means of every `compression_factor` neighbours along `dim` (Liu et al. 2018, section 4).

    Args:
        x: has `dim`.
        dim: becomes shorter.
        compression_factor: divides it.

    Raises:
        ShapeError: if it does not.
    """
    return mtf.pool_tensor_1d(x, dim, mtf.reduce_mean, compression_factor)


def _pool(x: Tensor, ksize: Sequence[int], rank: int, reduction: Reduction) -> Tensor:
    sizes = list(ksize)
    refuse(
        f"pooling of {x.shape} over windows {sizes}",
        [
            f"{rank} sizes are needed" if len(sizes) != rank else None,
            f"{rank} spatial dimensions and channels are needed" if x.shape.ndims <= rank else None,
            *(
                f"{d} does not divide by {n}"
                for d, n in zip(x.shape.dims[-rank - 1 : -1], sizes, strict=False)
                if n < 1 or d.size % n
            ),
        ],
    )
    for dim, size in zip(x.shape.dims[-rank - 1 : -1], sizes, strict=True):
        x = mtf.pool_tensor_1d(x, dim, reduction, size)
    return x
