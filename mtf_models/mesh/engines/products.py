"""Products of two values, each of whose dimensions has a letter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf


class Operand(NamedTuple):
    """A value of static shape, with a letter for each of its dimensions."""

    value: tf.Tensor
    letters: str

    def sizes(self) -> dict[str, int]:
        """The size of each letter."""
        return dict(zip(self.letters, self.value.shape, strict=True))


def by_einsum(a: tf.Tensor, b: tf.Tensor, terms: Sequence[str]) -> tf.Tensor:
    """The product of two values, given the letters of both and of the result."""
    return tf.einsum(f"{terms[0]},{terms[1]}->{terms[2]}", a, b)


def matrix_product(a: Operand, b: Operand, output: str) -> tf.Tensor:
    """What `tf.einsum` gives, by the transposes it takes, reshapes and `tf.linalg.matmul`.

    On a CPU it is faster, and more so are its derivatives: they are products of the matrices that
    it made, where those of an einsum transpose again what was transposed.

    Args:
        a: an operand.
        b: another one of the same dtype.
        output: the letters of the result. One that is in one operand only is among them, and at
            least one that both have is not.
    """
    if _first_own(b, a, output) < _first_own(a, b, output):
        a, b = b, a
    both = "".join(x for x in output if x in a.letters and x in b.letters)
    rows = "".join(x for x in output if x not in b.letters)
    columns = "".join(x for x in output if x not in a.letters)
    summed = "".join(x for x in a.letters if x not in output)
    left, left_turned = _matrices(a, both, rows, summed)
    right, right_turned = _matrices(b, both, summed, columns)
    product = tf.linalg.matmul(left, right, transpose_a=left_turned, transpose_b=right_turned)
    sizes = a.sizes() | b.sizes()
    found = both + rows + columns
    return _ordered(tf.reshape(product, [sizes[x] for x in found]), found, output)


def _first_own(operand: Operand, other: Operand, output: str) -> int:
    """Where in the result the first letter stands that only this operand has."""
    own = [output.index(x) for x in operand.letters if x not in other.letters]
    return min(own, default=len(output))


def _matrices(operand: Operand, both: str, rows: str, columns: str) -> tuple[tf.Tensor, bool]:
    """One matrix for all of `both`, and whether rows and columns have changed places in it."""
    turned = operand.letters == both + columns + rows != both + rows + columns
    value = operand.value
    if not turned:
        value = _ordered(value, operand.letters, both + rows + columns)
    sizes = operand.sizes()
    parts = [both] * bool(both) + ([columns, rows] if turned else [rows, columns])
    return tf.reshape(value, [math.prod(sizes[x] for x in part) for part in parts]), turned


def _ordered(value: tf.Tensor, letters: str, wanted: str) -> tf.Tensor:
    """The value with its dimensions in another order."""
    if letters == wanted:
        return value
    return tf.transpose(value, [letters.index(x) for x in wanted])
