"""Functions of named tensors, compiled once for each shape of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from mtf_models.mesh import Mesh, Tensor

Tensors = dict[str, Tensor]


class _Graph(NamedTuple):
    """A compiled function, and the shapes of what it returns, nested alike."""

    run: Callable[[dict[str, tf.Tensor]], Any]
    shapes: Any


class CompiledFunction:
    """A function of tensors by name that runs as one graph.

    Args:
        mesh: where the tensors are.
        function: takes tensors by name, returns tensors in dicts and lists. What it changes must
            be variables.
    """

    def __init__(self, mesh: Mesh, function: Callable[[Tensors], Any]) -> None:
        self.mesh = mesh
        self._function = function
        self._graphs: dict[Any, _Graph] = {}

    @property
    def compilations(self) -> int:
        """For how many shapes of inputs it was compiled."""
        return len(self._graphs)

    def __call__(self, inputs: Tensors) -> Any:
        """Runs the function, compiling it first if these shapes are new."""
        signature = tuple((name, x.shape, x.dtype) for name, x in sorted(inputs.items()))
        with self.mesh.calling():
            values = {name: self.mesh.engine.argument(x.value) for name, x in inputs.items()}
            if signature not in self._graphs:
                self._graphs[signature] = self._compile(inputs, values)
            graph = self._graphs[signature]
            found = graph.run(values)
        return tf.nest.map_structure(lambda s, v: Tensor(self.mesh, s, v), graph.shapes, found)

    def _compile(self, inputs: Tensors, values: dict[str, tf.Tensor]) -> _Graph:
        types = {name: (x.shape, x.dtype) for name, x in inputs.items()}
        found: list[Any] = []

        def run(values: dict[str, tf.Tensor]) -> Any:
            named = {
                name: Tensor(self.mesh, shape, _of_dtype(values[name], dtype))
                for name, (shape, dtype) in types.items()
            }
            outputs = self._function(named)
            found.append(tf.nest.map_structure(lambda x: x.shape, outputs))
            return tf.nest.map_structure(lambda x: x.value, outputs)

        # A graph of its own for each signature, since to TensorFlow names are no part of it.
        graph = tf.function(run, autograph=False).get_concrete_function(values)
        return _Graph(graph, found[-1])


def _of_dtype(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """What an engine made an argument of, as it was."""
    return value if value.dtype == dtype else tf.bitcast(value, dtype)
