"""Where positions are: relative buckets and sinusoids."""

from __future__ import annotations

import math

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor

MAX_DISTANCE = 128


def relative_position_bucket(
    relative_position: Tensor,
    bidirectional: bool,
    num_buckets: int = 32,
    max_distance: int = MAX_DISTANCE,
) -> Tensor:
    """The bucket of each relative position (Raffel et al. 2020, section 2.1).

    Half of a direction's buckets are for exact distances, the other half grow logarithmically up
    to `max_distance`; all further ones share the last.

    Args:
        relative_position: int32, memory position minus query position.
        bidirectional: whether positions to the right have buckets of their own; else they are
            counted as distance 0.
        num_buckets: of both directions together.
        max_distance: where the last bucket begins, at the latest.

    Returns:
        int32, the shape of `relative_position`.
    """
    distance = -relative_position
    first = None
    if bidirectional:
        num_buckets //= 2
        first = mtf.to_int32(mtf.less(distance, 0)) * num_buckets
        distance = mtf.abs(distance)
    else:
        distance = mtf.maximum(distance, 0)
    exact = num_buckets // 2
    ratio = mtf.to_float(mtf.maximum(distance, 1)) / float(exact)
    far = mtf.to_int32(mtf.log(ratio) / math.log(max_distance / exact) * float(num_buckets - exact))
    far = mtf.minimum(far + exact, num_buckets - 1)
    bucket = mtf.where(mtf.less(distance, exact), distance, far)
    return bucket if first is None else bucket + first


def sinusoid_positions(mesh: Mesh, length: Dimension, d_model: Dimension) -> Tensor:
    """[length, d_model] float32: sines, then cosines, of wavelengths from 2π to 10000·2π.

    Vaswani et al. 2017, section 3.5, halves side by side.
    """
    half = d_model.size // 2
    rates = np.exp(-np.arange(half) * (math.log(1e4) / max(half - 1, 1)))
    angles = np.outer(np.arange(length.size), rates)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    table = np.pad(table, [[0, 0], [0, d_model.size - 2 * half]])
    return mtf.import_tf_tensor(mesh, table.astype(np.float32), Shape([length, d_model]))
