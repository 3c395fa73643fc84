"""Attention with linear biases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.transformer.context import Context
from mtf_models.transformer.relative_attention import distance


def alibi_bias(context: Context, heads: Sequence[Dimension]) -> Tensor:
    """[heads, length, memory_length] float32: minus slope times distance (Press et al. 2022).

    Args:
        context: of the call. In a stack that is not autoregressive distances count both ways.
        heads: the query heads, whose slopes fall in their order.
    """
    shape = Shape(heads)
    table = np.asarray(slopes(shape.size), np.float32).reshape(shape.to_integer_list)
    slope = mtf.import_tf_tensor(context.mesh, table, shape)
    away = mtf.to_float(mtf.abs(distance(context)))
    return mtf.multiply(slope, -away, output_shape=shape + away.shape)


def slopes(count: int) -> list[float]:
    """The slopes of `count` heads (Press et al. 2022, section 3).

    For a power of two n they are 2^(-8/n), 2^(-16/n), ... to 2^-8. For another count, those of the
    next lower power of two, then every second one of those of the next higher.
    """
    power = 2 ** int(math.log2(count))
    first = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    between = [2.0 ** (-4.0 * (i + 1) / power) for i in range(0, 2 * power, 2)]
    return first + between[: count - power]
