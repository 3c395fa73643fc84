"""Initial values, drawn on the host by name and seed: no layout changes them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_models.configurable import configurable
from mtf_models.mesh.dimension import Shape

Initializer = Callable[[Sequence[int], tf.Tensor], tf.Tensor]
"""Takes sizes and a stateless seed [2], gives a float32 tensor."""


@configurable(module="mesh_tensorflow.layers")
def unit_scaling_convention(value: bool = False) -> bool:
    """Whether kernels are drawn with variance 1 and products scaled by their number of terms.

    So are those of dense layers and of attention's projections, and tables of a vocabulary: their
    parameters then have the scale 1 for every optimizer.

    Args:
        value: what it answers.
    """
    return value


def constant(value: float) -> Initializer:
    """The same number everywhere."""
    return lambda sizes, seed: tf.fill(sizes, tf.constant(value, tf.float32))


def zeros() -> Initializer:
    """Zeros."""
    return constant(0.0)


def ones() -> Initializer:
    """Ones."""
    return constant(1.0)


def random_normal(stddev: float = 1.0) -> Initializer:
    """Normal numbers of mean 0."""
    return lambda sizes, seed: tf.random.stateless_normal(sizes, seed, stddev=stddev)


def truncated_normal(stddev: float = 1.0) -> Initializer:
    """Normal numbers of mean 0, none further out than two standard deviations."""
    return lambda sizes, seed: tf.random.stateless_truncated_normal(sizes, seed, stddev=stddev)


def random_uniform(limit: float) -> Initializer:
    """Uniform numbers between -limit and limit."""
    return lambda sizes, seed: tf.random.stateless_uniform(sizes, seed, -limit, limit)


def glorot_uniform(shape: Shape) -> Initializer:
    """Uniform numbers of variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010, section 4.2).

    Fans are the last two sizes times what comes before them; a vector is its own fans.
    """
    sizes = shape.to_integer_list
    receptive = math.prod(sizes[:-2])
    fan_in = sizes[-2] * receptive if len(sizes) > 1 else (sizes or [1])[0]
    fan_out = sizes[-1] * receptive if sizes else 1
    return random_uniform(math.sqrt(6.0 / (fan_in + fan_out)))


def seed_for(name: str, seed: int) -> tf.Tensor:
    """A stateless seed for one variable of one run."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little", signed=True) for i in (0, 4)]
    return tf.constant(words, tf.int32)
