"""Gradients of named tensors, with or without recomputation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from mtf_models.mesh import random as mesh_random
from mtf_models.mesh import scopes
from mtf_models.mesh.reshape import transpose
from mtf_models.mesh.tensor import Tensor, make
from mtf_models.mesh.variable import recording_uses, substituting


def gradients(tape: tf.GradientTape, loss: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The derivatives of a scalar with respect to tensors that a tape has watched.

    Args:
        tape: recorded the computation of `loss`.
        loss: a scalar.
        tensors: what to differentiate by.

    Returns:
        Dense tensors of the shapes of `tensors`; zeros where `loss` does not depend on one.
    """
    mesh = loss.mesh
    with mesh.running("gradients"):
        found = tape.gradient(
            loss.value,
            [x.value for x in tensors],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        dense = [tf.convert_to_tensor(g) for g in found]
        return [make(mesh, g, x.shape) for g, x in zip(dense, tensors, strict=True)]


def custom_gradient(
    function: Callable[..., Tensor],
    gradient_function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
) -> Tensor:
    """Computes `function(*inputs)` with a derivative of its own.

    Args:
        function: takes the inputs, returns one tensor.
        gradient_function: takes the inputs, the output and its gradient, and returns a gradient
            for each input, with the input's dimensions.
        inputs: everything that derivatives are wanted of.
    """
    mesh = inputs[0].mesh
    shapes: list[Any] = []

    @tf.custom_gradient
    def run(*values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
        named = _named(inputs, values)
        output = function(*named)
        shapes.append(output.shape)

        def backward(dy: tf.Tensor) -> list[tf.Tensor]:
            with mesh.running("custom_gradient"):
                grads = gradient_function(*named, output, make(mesh, dy, output.shape))
                return [transpose(g, x.shape).value for g, x in zip(grads, inputs, strict=True)]

        return output.value, backward

    with mesh.running("custom_gradient"):
        value = run(*[x.value for x in inputs])
        return make(mesh, value, shapes[-1])


Outputs = Tensor | Sequence[Tensor]


def recompute_grad(function: Callable[..., Outputs], inputs: Sequence[Tensor]) -> Outputs:
    """Computes `function(*inputs)` and keeps none of its intermediate values for the backward pass.

    They are computed again there, with the same random numbers. Variables that `function` reads
    get their gradients; of other tensors only `inputs` do, so every tensor that derivatives are
    wanted of must be among them.

    Args:
        function: takes the inputs, returns a tensor or several.
        inputs: what it depends on.
    """
    mesh = inputs[0].mesh
    stream = mesh_random.current_stream()
    drawn_before = stream.drawn if stream else 0
    with recording_uses() as used:
        result = function(*inputs)
    outputs = [result] if isinstance(result, Tensor) else list(result)
    scope = scopes.current_scope()

    @tf.custom_gradient
    def replay(*values: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., list[tf.Tensor]]]:
        def backward(*dys: tf.Tensor) -> list[tf.Tensor]:
            # The inputs wait for `dys`, or the second computation would be merged with the first.
            with tf.control_dependencies([] if tf.executing_eagerly() else list(dys)):
                late = [tf.identity(value) for value in values]
            with tf.GradientTape() as tape, mesh_random.replayed(stream, drawn_before):
                tape.watch(late)
                again = _replayed(function, inputs, late, list(used), scope)
            return tape.gradient(
                [x.value for x in again],
                late,
                list(dys),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )

        return [tf.identity(x.value) for x in outputs], backward

    with mesh.running("recompute_grad"):
        values = replay(*[x.value for x in inputs], *used.values())
        named = [make(mesh, v, x.shape) for v, x in zip(values, outputs, strict=True)]
    return named[0] if isinstance(result, Tensor) else named


def _replayed(
    function: Callable[..., Outputs],
    inputs: Sequence[Tensor],
    values: Sequence[tf.Tensor],
    names: Sequence[str],
    scope: str,
) -> list[Tensor]:
    mesh = inputs[0].mesh
    table = dict(zip(names, values[len(inputs) :], strict=True))
    with mesh.running("recompute_grad"), scopes.entered(scope), substituting(table):
        result = function(*_named(inputs, values))
    return [result] if isinstance(result, Tensor) else list(result)


def _named(like: Sequence[Tensor], values: Sequence[tf.Tensor]) -> list[Tensor]:
    return [Tensor(x.mesh, x.shape, value) for x, value in zip(like, values, strict=False)]
