"""Gradients of named tensors, with or without recomputation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_models.errors import MtfError
from mtf_models.mesh import random as mesh_random
from mtf_models.mesh import scopes
from mtf_models.mesh.dimension import Shape
from mtf_models.mesh.elementwise import stop_gradient
from mtf_models.mesh.engines.recorder import GRADIENTS
from mtf_models.mesh.own_gradient import Backward, with_own_gradient
from mtf_models.mesh.reshape import transpose
from mtf_models.mesh.tensor import Tensor, make, operation
from mtf_models.mesh.variable import Uses, recording_uses, substituting


def gradients(tape: tf.GradientTape, loss: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The derivatives of a scalar with respect to tensors that a tape has watched.

    Args:
        tape: recorded the computation of `loss`.
        loss: a scalar.
        tensors: what to differentiate by.

    Returns:
        Dense tensors of the shapes of `tensors`; zeros where `loss` does not depend on one.

    Raises:
        MtfError: if `loss` depends on none of them.
    """
    mesh = loss.mesh
    with mesh.running(GRADIENTS):
        found = tape.gradient(loss.value, [x.value for x in tensors])
        if tensors and all(g is None for g in found):
            raise MtfError(
                "The loss depends on none of the tensors that it is to be differentiated by. The "
                "tape must have watched their values, and the loss be computed under it."
            )
        dense = [
            tf.zeros_like(x.value) if g is None else _dense(g, x.value)
            for g, x in zip(found, tensors, strict=True)
        ]
        return [make(mesh, g, x.shape) for g, x in zip(dense, tensors, strict=True)]


def custom_gradient(
    fn: Callable[..., Tensor],
    grad_fn: Callable[..., Sequence[Tensor]],
    explicit_inputs: Sequence[Tensor],
) -> Tensor:
    """Computes `fn(*explicit_inputs)` with a derivative of its own.

    Args:
        fn: takes the inputs, returns one tensor.
        grad_fn: takes the inputs, the output and its gradient, and returns a gradient for each
            input, with the input's dimensions in any order.
        explicit_inputs: everything that derivatives are wanted of.
    """
    inputs = list(explicit_inputs)
    if not scopes.is_derived():
        return fn(*inputs)
    mesh = inputs[0].mesh
    shapes: list[Shape] = []
    scope = scopes.current_scope()

    @with_own_gradient
    def run(*values: tf.Tensor) -> tuple[list[tf.Tensor], Backward]:
        named = named_alike(inputs, values)
        # The tape around it would otherwise keep what `fn` computes, for a derivative of its own.
        output = fn(*map(stop_gradient, named))
        shapes.append(output.shape)

        def backward(dy: tf.Tensor) -> list[tf.Tensor]:
            with mesh.composing_backward("custom_gradient", scope):
                named_dy = result_of(Tensor(mesh, output.shape, dy))
                grads = grad_fn(*named, output, named_dy)
                return [transpose(g, x.shape).value for g, x in zip(grads, inputs, strict=True)]

        return [output.value], backward

    with mesh.composing("custom_gradient", [x.shape for x in inputs], shapes):
        [value] = run(*[x.value for x in inputs])
        return result_of(Tensor(mesh, shapes[-1], value))


Outputs = Tensor | Sequence[Tensor]


def recompute_grad(fn: Callable[..., Outputs], explicit_inputs: Sequence[Tensor]) -> Outputs:
    """Computes `fn(*explicit_inputs)` and keeps none of its intermediate values for the gradient.

    They are computed again there, with the same random numbers. Variables that `fn` reads get
    their gradients; of other tensors only `explicit_inputs` do, so every tensor that derivatives
    are wanted of must be among them.

    Args:
        fn: takes the inputs, returns a tensor or several.
        explicit_inputs: what it depends on.
    """
    inputs = list(explicit_inputs)
    mesh = inputs[0].mesh
    stream = mesh_random.current_stream()
    drawn_before = stream.drawn if stream else 0
    # Without gradients here, or a tape around all this would keep the intermediate values.
    with recording_uses() as uses:
        result = fn(*map(stop_gradient, inputs))
    outputs = [result] if isinstance(result, Tensor) else list(result)
    scope, stacked = scopes.current_scope(), scopes.stacked_dims()

    @with_own_gradient
    def replay(*values: tf.Tensor) -> tuple[list[tf.Tensor], Backward]:
        def backward(*dys: tf.Tensor) -> list[tf.Tensor]:
            with after(dys):
                late = [tf.identity(value) for value in values]
            with tf.GradientTape() as tape, mesh_random.replayed(stream, drawn_before):
                tape.watch([value for value in late if value.dtype.is_floating])
                with scopes.stacked_variables(stacked):
                    again = compute_again(fn, inputs, late, uses, scope)
            return slopes(tape, [x.value for x in again], late, dys)

        return [tf.identity(x.value) for x in outputs], backward

    shapes = [x.shape for x in outputs]
    with mesh.composing("recompute_grad", [x.shape for x in inputs], shapes):
        values = replay(*[x.value for x in inputs], *uses.values.values())
        named = [result_of(Tensor(mesh, x, v)) for v, x in zip(values, shapes, strict=True)]
    return named[0] if isinstance(result, Tensor) else named


def after(others: Sequence[tf.Tensor]) -> contextlib.AbstractContextManager[None]:
    """Around a computation that begins when others are done.

    A second computation would be merged with the first without it.
    """
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    return tf.control_dependencies(list(others))


def compute_again(
    fn: Callable[..., Outputs],
    like: Sequence[Tensor],
    values: Sequence[tf.Tensor],
    uses: Uses,
    scope: str,
) -> list[Tensor]:
    """What `fn` gives of other values.

    Args:
        fn: takes tensors, returns a tensor or several.
        like: tensors on the mesh of the shapes that `fn` takes.
        values: one for each of them, then one for each variable that `fn` reads.
        uses: these variables.
        scope: the variable scope in which `fn` runs.
    """
    mesh, variables = like[0].mesh, values[len(like) :]
    backward = mesh.composing_backward("recompute_grad", scope)
    with backward, scopes.entered(scope), substituting(uses, variables):
        result = fn(*named_alike(like, values))
    return [result] if isinstance(result, Tensor) else list(result)


def slopes(
    tape: tf.GradientTape,
    results: Sequence[tf.Tensor],
    sources: Sequence[tf.Tensor],
    dys: Sequence[tf.Tensor],
) -> list[tf.Tensor | None]:
    """Dense derivatives for each source; None where there is none, as for integers."""
    floating = [(y, dy) for y, dy in zip(results, dys, strict=True) if y.dtype.is_floating]
    found = tape.gradient([y for y, _ in floating], list(sources), [dy for _, dy in floating])
    return [None if g is None else _dense(g, x) for g, x in zip(found, sources, strict=True)]


@operation
def result_of(x: Tensor) -> Tensor:
    """A value that was computed elsewhere, as the result of an operation of its own."""
    return make(x.mesh, x.value, x.shape)


def _dense(slope: tf.Tensor | tf.IndexedSlices, source: tf.Tensor) -> tf.Tensor:
    """A derivative in full; what gathers give otherwise is that of single rows."""
    if isinstance(slope, tf.IndexedSlices):
        return tf.math.unsorted_segment_sum(slope.values, slope.indices, source.shape[0])
    return tf.convert_to_tensor(slope)


def named_alike(like: Sequence[Tensor], values: Sequence[tf.Tensor]) -> list[Tensor]:
    """The first values as tensors on the mesh and of the shapes of others."""
    return [Tensor(x.mesh, x.shape, value) for x, value in zip(like, values, strict=False)]
