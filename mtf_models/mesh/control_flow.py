"""Loops over named tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_models.mesh.reshape import transpose
from mtf_models.mesh.tensor import Tensor, make, operation

_loops = itertools.count()


@operation
def while_loop(
    cond_fn: Callable[..., Tensor],
    body_fn: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    maximum_iterations: int | None = None,
) -> list[Tensor]:
    """Repeats `body_fn` while `cond_fn` holds; no gradient flows through it.

    Args:
        cond_fn: takes the state, returns a bool scalar.
        body_fn: takes the state, returns the next state: tensors of the same shapes and dtypes.
        inputs: the first state.
        maximum_iterations: stop after so many at the latest.

    Returns:
        The last state.

    Raises:
        ShapeError: if a tensor of the next state has other dimensions.
    """
    mesh, shapes = inputs[0].mesh, [x.shape for x in inputs]

    def named(values: Sequence[tf.Tensor]) -> list[Tensor]:
        # On a mesh, laying the state out as it came in brings the process down: there must be an
        # operation between.
        apart = map(tf.stop_gradient, values)
        return [Tensor(mesh, shape, value) for shape, value in zip(shapes, apart, strict=True)]

    def body(*values: tf.Tensor) -> list[tf.Tensor]:
        state = body_fn(*named(values))
        return [transpose(x, shape).value for x, shape in zip(state, shapes, strict=True)]

    final = tf.while_loop(
        lambda *values: cond_fn(*named(values)).value,
        body,
        [x.value for x in inputs],
        maximum_iterations=maximum_iterations,
        # On a mesh two functions of one process must not share a name, and loops make functions.
        name=f"loop_{next(_loops)}_",
    )
    return [make(mesh, value, shape) for value, shape in zip(final, shapes, strict=True)]
