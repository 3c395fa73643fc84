"""What a case of the table is, and the inputs that cases are made of."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import mtf_models as mtf
from mtf_models.testing import ONE_DEVICE, Placement

A, B, C, D = (mtf.Dimension(name, size) for name, size in zip("abcd", (8, 16, 8, 3), strict=True))
# Where one operation on elements runs, with its broadcasting, all of them do: for most of them one
# layout is enough.
SPLIT_TWICE = [ONE_DEVICE, Placement("r:2;c:4", "a:r,b:c")]


class Case(NamedTuple):
    """How one operation is called, and what NumPy says."""

    name: str
    function: Callable
    inputs: dict
    reference: Callable
    options: dict = {}
    float32_only: bool = False
    bfloat16_steps: int = 4
    is_costly: bool = False


def normal(*dims, scale=1.0):
    shape = mtf.Shape(dims)
    random = np.random.default_rng(shape.size)
    return shape, random.normal(size=shape.to_integer_list) * scale


def positive(*dims):
    shape, array = normal(*dims)
    return shape, np.abs(array) + 0.3


def integers(*dims, low=0, high=5):
    shape = mtf.Shape(dims)
    random = np.random.default_rng(shape.size)
    return shape, random.integers(low, high, shape.to_integer_list).astype(np.int32)


def booleans(*dims):
    shape, array = normal(*dims)
    return shape, array > 0.2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def logsumexp(x, axis):
    return np.log(np.sum(np.exp(x), axis))


def elementwise(name, reference, x=None, **options):
    options = {"placements": SPLIT_TWICE, **options}
    return Case(name, getattr(mtf, name), {"x": x or normal(A, B)}, reference, options)


def binary(name, reference, x, y, **options):
    return Case(name, getattr(mtf, name), {"x": x, "y": y}, reference, options)


def case(name, function, reference, /, **inputs):
    return Case(name, function, inputs, reference)
