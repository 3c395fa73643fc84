"""A variable of ours beside the tensor of Hugging Face's that has its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Pair(NamedTuple):
    """A variable of ours and what it is there.

    Attributes:
        ours: the name of the variable.
        theirs: the name of the tensor, or of one for each expert.
        shape: the variable's sizes.
        their_shape: the sizes of each tensor.
        transposed: whether a tensor has the axes in the opposite order.
        part: where a tensor is several variables side by side, along its last axis, which it is.
        parts: of how many.
    """

    ours: str
    theirs: tuple[str, ...]
    shape: tuple[int, ...]
    their_shape: tuple[int, ...]
    transposed: bool = True
    part: int = 0
    parts: int = 1

    def to_ours(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        """The variable's value from the tensors'."""
        if self.parts > 1:
            return np.split(tensors[0], self.parts, axis=-1)[self.part]
        parts = [tensor.T if self.transposed else tensor for tensor in tensors]
        return np.stack(parts).reshape(self.shape)

    def to_theirs(self, value: np.ndarray, index: int = 0) -> np.ndarray:
        """The value of the tensor of number `index`, or this part of it, from the variable's."""
        if self.parts > 1:
            return value
        sizes = self.their_shape[::-1] if self.transposed else self.their_shape
        part = value.reshape(len(self.theirs), *sizes)[index]
        return np.ascontiguousarray(part.T if self.transposed else part)
