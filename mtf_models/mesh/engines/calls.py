"""Computations that are recorded once, and called again with other operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf


class Body(NamedTuple):
    """What a computation is in the graph.

    Attributes:
        scope: the names of its operations begin with this.
        inputs: what it takes.
        outputs: what it gives.
    """

    scope: str
    inputs: list[tf.Tensor]
    outputs: list[tf.Tensor]


class Call(NamedTuple):
    """A computation that was recorded before, with other operands.

    Attributes:
        body: what was recorded.
        scope: the names of its operations would begin with this.
        inputs: what it takes.
        outputs: what stands for the results.
    """

    body: Body
    scope: str
    inputs: list[tf.Tensor]
    outputs: list[tf.Tensor]


class Computation:
    """Traces a function into the present graph at its first call; later ones are noted only.

    Args:
        run: takes and returns symbolic values, always of the same shapes.
        noted: where calls are noted, by the name of each operation that stands for a result.
    """

    def __init__(
        self, run: Callable[..., Sequence[tf.Tensor]], noted: dict[str, tuple[Call, int]]
    ) -> None:
        self._run = run
        self._noted = noted
        self._body: Body | None = None

    def __call__(self, *inputs: tf.Tensor) -> list[tf.Tensor]:
        """The results, or what stands for them."""
        scope = tf.get_current_name_scope()
        if self._body is None:
            self._body = Body(scope, list(inputs), list(self._run(*inputs)))
            return self._body.outputs
        outputs = [tf.raw_ops.Placeholder(dtype=x.dtype, shape=x.shape) for x in self._body.outputs]
        call = Call(self._body, scope, list(inputs), outputs)
        self._noted.update({x.op.name: (call, i) for i, x in enumerate(outputs)})
        return outputs
