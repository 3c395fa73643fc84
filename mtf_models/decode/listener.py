"""A function of the host that follows decoding, one position after another, and may end rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from mtf_models.errors import ConfigError
from mtf_models.mesh import Tensor

ListenerFunction = Callable[[int, np.ndarray], np.ndarray | None]
"""Takes a position and the ids [batch] that were chosen there, -1 for rows that have ended or whose
id was given; returns which rows [batch] are to end with it, or None for none."""


class Listener:
    """A place in a compiled loop for one function after another: the loop is compiled once."""

    def __init__(self) -> None:
        self._function: ListenerFunction | None = None
        self._failure: BaseException | None = None

    @contextlib.contextmanager
    def calling(self, function: ListenerFunction) -> Iterator[None]:
        """Around a call of the loop: what is called in it.

        Raises:
            BaseException: what the function raised; no row went on after it.
        """
        self._function, self._failure = function, None
        try:
            yield
            if self._failure is not None:
                raise self._failure
        finally:
            self._function = self._failure = None

    def ended(self, position: Tensor, token: Tensor) -> Tensor:
        """Calls the function when the loop is there.

        Args:
            position: int32 scalar.
            token: [batch] int32, see `ListenerFunction`.

        Returns:
            [batch] int32, 1 for rows that are to end.

        Raises:
            ConfigError: on a mesh of several devices, in whose functions the host has no part.
        """
        if token.mesh.size > 1:
            raise ConfigError(
                f"A listener follows decoding on one device, and this is mesh {token.mesh}: load "
                "the model onto one, or decode without a listener."
            )
        found = tf.numpy_function(self._call, [position.value, token.value], tf.int32)
        return Tensor(token.mesh, token.shape, tf.ensure_shape(found, token.value.shape))

    def _call(self, position: np.ndarray, token: np.ndarray) -> np.ndarray:
        try:
            ended = self._function(int(position), token)
        except BaseException as failure:  # It is raised again where the loop was called.
            self._failure = failure
            return np.ones_like(token)
        return np.zeros_like(token) if ended is None else np.asarray(ended).astype(np.int32)
