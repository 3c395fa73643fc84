"""What a reader of checkpoints offers, whatever the format of the files."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import tensorflow as tf


class Source(Protocol):
    """Variables under our names; values are read when asked for.

    Attributes:
        prefix: where the files are, for messages.
    """

    prefix: Path

    def __contains__(self, name: str) -> bool: ...

    @property
    def names(self) -> list[str]:
        """All names, sorted."""

    @property
    def step(self) -> int:
        """The number of steps that it was taken after; 0 if it does not say."""

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of a variable."""

    def dtype(self, name: str) -> tf.DType:
        """The dtype of a variable in the file."""

    def read(self, name: str) -> np.ndarray:
        """A whole variable, in the dtype of the file."""

    def tensor(self, name: str) -> tf.Tensor:
        """The same as a tensor on the host."""
