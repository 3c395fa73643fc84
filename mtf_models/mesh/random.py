"""Random numbers that are the same on every layout: drawn whole, pinned, then split."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import tensorflow as tf

from mtf_models.errors import ShapeError, refuse
from mtf_models.mesh.dimension import (
    DimensionLike,
    Shape,
    ShapeLike,
    convert_to_dimension,
    convert_to_shape,
)
from mtf_models.mesh.elementwise import cast, log, multiply, negative
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.ordering import argmax
from mtf_models.mesh.tensor import Tensor, operation, settle

_LEAST = 1e-9
"""The smallest number that the logarithm of a uniform one is taken of."""


class RandomStream:
    """Seeds for the random operations of one step: each draws the next one.

    Args:
        seed: two integers, for example the seed of the run and the step; a `tf.Tensor` or a pair.
    """

    def __init__(self, seed: tf.Tensor | tuple[int, int]) -> None:
        self.seed = seed
        self.drawn = 0

    def next_seed(self) -> tf.Tensor:
        """A seed that no other operation of this stream gets."""
        self.drawn += 1
        salt = tf.constant([self.drawn * 0x9E3779B1 % 2**31, self.drawn], tf.int32)
        return tf.bitwise.bitwise_xor(tf.cast(self.seed, tf.int32), salt)


class _Active(threading.local):
    stream: RandomStream | None = None


_active = _Active()


@contextlib.contextmanager
def random_stream(stream: RandomStream | None) -> Iterator[RandomStream | None]:
    """Random operations inside take their seeds from `stream`."""
    saved, _active.stream = _active.stream, stream
    try:
        yield stream
    finally:
        _active.stream = saved


@contextlib.contextmanager
def replayed(stream: RandomStream | None, drawn: int) -> Iterator[None]:
    """Random operations inside draw once more what `stream` gave after `drawn` draws."""
    again = None
    if stream is not None:
        again = RandomStream(stream.seed)
        again.drawn = drawn
    with random_stream(again):
        yield


def current_stream() -> RandomStream | None:
    """The stream that random operations draw from just now."""
    return _active.stream


@operation
def random_uniform(
    mesh: Mesh,
    shape: ShapeLike,
    minval: float = 0,
    maxval: float = 1,
    dtype: tf.DType = tf.float32,
) -> Tensor:
    """Uniform numbers in [minval, maxval).

    Raises:
        ShapeError: outside `mtf.random_stream`.
    """
    shape = convert_to_shape(shape)
    draw = tf.random.stateless_uniform(
        shape.to_integer_list, _seed("random_uniform"), minval=minval, maxval=maxval, dtype=dtype
    )
    return settle(mesh, draw, shape, shape.dims)


@operation
def random_normal(
    mesh: Mesh,
    shape: ShapeLike,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: tf.DType = tf.float32,
) -> Tensor:
    """Normal numbers.

    Raises:
        ShapeError: outside `mtf.random_stream`.
    """
    shape = convert_to_shape(shape)
    draw = tf.random.stateless_normal(
        shape.to_integer_list, _seed("random_normal"), mean=mean, stddev=stddev, dtype=dtype
    )
    return settle(mesh, draw, shape, shape.dims)


@operation
def dropout(
    x: Tensor,
    is_training: bool,
    keep_prob: float | None = None,
    rate: float | None = None,
    noise_shape: ShapeLike | None = None,
) -> Tensor:
    """Sets a random part of the elements to zero and scales the rest up.

    Integer tensors (token ids) are masked and not scaled.

    Args:
        x: any tensor.
        is_training: without it `x` is returned.
        keep_prob: the part that stays; or give
        rate: the part that is dropped.
        noise_shape: the dimensions along which the choice differs; by default all.

    Raises:
        ShapeError: if not exactly one of `keep_prob` and `rate` is given, not all or none would
            be kept, or `noise_shape` has a dimension that `x` lacks.
    """
    if (keep_prob is None) == (rate is None):
        raise ShapeError("Give mtf.dropout either keep_prob or rate.")
    keep = keep_prob if keep_prob is not None else 1.0 - rate
    if not 0.0 < keep <= 1.0:
        raise ShapeError(f"mtf.dropout cannot keep a part of {keep}; it must be over 0, at most 1.")
    if not is_training or keep >= 1.0:
        return x
    shape = x.shape if noise_shape is None else convert_to_shape(noise_shape)
    foreign = [d for d in shape if d not in x.shape]
    if foreign:
        raise ShapeError(f"The noise_shape of dropout on {x.shape} has {Shape(foreign)} besides.")
    kept = random_uniform(x.mesh, shape) < keep
    mask = cast(kept, x.dtype)
    return multiply(x, mask if x.dtype.is_integer else mask * (1.0 / keep), output_shape=x.shape)


@operation
def sample_with_temperature(logits: Tensor, dim: DimensionLike, temperature: float = 1.0) -> Tensor:
    """Draws an index along `dim` with the probabilities softmax(logits / temperature).

    The largest of logits + temperature * Gumbel noise is taken, computed in float32.

    Args:
        logits: floating, has `dim`.
        dim: the classes.
        temperature: 0 takes the largest logit, without a random number.

    Returns:
        int32, the dimensions of `logits` less `dim`.

    Raises:
        ShapeError: if the temperature is negative, `dim` absent, or no random stream is in use.
    """
    dim = convert_to_dimension(dim)
    refuse(
        f"sample_with_temperature from {logits.shape} along {dim}",
        [
            f"the logits have no {dim}" if dim not in logits.shape else None,
            f"the temperature {temperature} is negative" if temperature < 0 else None,
        ],
    )
    if temperature == 0:
        return argmax(logits, dim)
    uniform = random_uniform(logits.mesh, logits.shape, minval=_LEAST, maxval=1.0)
    noise = negative(log(negative(log(uniform))))
    return argmax(cast(logits, tf.float32) + noise * temperature, dim)


def _seed(operation_name: str) -> tf.Tensor:
    if _active.stream is None:
        raise ShapeError(
            f"mtf.{operation_name} needs seeds: wrap the computation in "
            "`with mtf.random_stream(mtf.RandomStream((seed, step)))`."
        )
    return _active.stream.next_seed()
