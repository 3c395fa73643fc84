"""Functions of named tensors, compiled once for each shape of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mtf_models.mesh import Mesh, Tensor

Tensors = dict[str, Tensor]


class CompiledFunction:
    """A function of tensors by name that runs as one graph.

    Args:
        mesh: where the tensors are.
        function: takes tensors by name, returns tensors in dicts and lists. What it changes must
            be variables.
    """

    def __init__(self, mesh: Mesh, function: Callable[[Tensors], Any]) -> None:
        self.mesh = mesh
        self.compilations = 0
        self._function = function
        self._shapes: dict[Any, Any] = {}
        self._compiled = tf.function(self._trace, autograph=False)
        self._inputs: Tensors = {}

    def __call__(self, inputs: Tensors) -> Any:
        """Runs the function, compiling it first if these shapes are new."""
        self._inputs = inputs
        with self.mesh.calling():
            values = self._compiled({name: x.value for name, x in inputs.items()})
        shapes = self._shapes[_signature(inputs)]
        return tf.nest.map_structure(lambda s, v: Tensor(self.mesh, s, v), shapes, values)

    def _trace(self, values: dict[str, tf.Tensor]) -> Any:
        self.compilations += 1
        named = {n: Tensor(self.mesh, x.shape, values[n]) for n, x in self._inputs.items()}
        outputs = self._function(named)
        self._shapes[_signature(self._inputs)] = tf.nest.map_structure(lambda x: x.shape, outputs)
        return tf.nest.map_structure(lambda x: x.value, outputs)


def _signature(inputs: Tensors) -> Any:
    return tuple((name, x.shape, x.dtype) for name, x in sorted(inputs.items()))
