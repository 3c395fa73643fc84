"""Loops over named tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_models.errors import refuse
from mtf_models.mesh.dimension import Shape
from mtf_models.mesh.elementwise import cast, zeros
from mtf_models.mesh.reshape import transpose
from mtf_models.mesh.tensor import Tensor, make, operation, static_shape

_loops = itertools.count()


@operation
def while_loop(
    cond_fn: Callable[..., Tensor],
    body_fn: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    num_loop_vars: int | None = None,
    has_accumulators: bool = False,
    maximum_iterations: int | None = None,
    as_kernel: bool = False,
) -> list[Tensor]:
    """Repeats `body_fn` while `cond_fn` holds; no gradient flows through it.

    Args:
        cond_fn: takes the state, returns a bool scalar.
        body_fn: takes the state, returns the next state: tensors of the same shapes and dtypes;
            with accumulators, more tensors after it.
        inputs: the first state.
        num_loop_vars: how many of `inputs` were carried from one iteration to the next by the
            original's loop itself; the others by variables, which are not needed here. All are
            state, whatever the number.
        has_accumulators: whether what `body_fn` returns beyond the state is summed up over the
            iterations. Sums of bfloat16 and float16 are float32.
        maximum_iterations: stop after so many at the latest.
        as_kernel: whether XLA compiles the whole loop where it can, in a compiled function on one
            device. That takes seconds once, and pays where iterations are many and small.

    Returns:
        The last state, then the sums.

    Raises:
        ShapeError: if there is no state, the next state has other dimensions, dtypes or number, or
            `num_loop_vars` is not a part of the inputs.
    """
    inputs = list(inputs)
    count = len(inputs)
    outside = num_loop_vars is not None and not 0 <= num_loop_vars <= count
    refuse(
        "while_loop",
        [
            "there is no tensor to carry" if not inputs else None,
            f"num_loop_vars {num_loop_vars} is not within the {count} inputs" if outside else None,
        ],
    )
    if has_accumulators:
        inputs += [_empty_sum(x) for x in _traced(body_fn, inputs)[count:]]

    def body(*state: Tensor) -> list[Tensor]:
        found = list(body_fn(*state[:count]))
        _check_state(found, state, count, has_accumulators)
        sums = [
            total + cast(transpose(x, total.shape), total.dtype)
            for total, x in zip(state[count:], found[count:], strict=True)
        ]
        return [*found[:count], *sums]

    as_kernel = as_kernel and inputs[0].mesh.engine.compiles_loops and not tf.executing_eagerly()
    return _loop(
        lambda *state: cond_fn(*state[:count]), body, inputs, maximum_iterations, as_kernel
    )


def _loop(
    cond_fn: Callable[..., Tensor],
    body_fn: Callable[..., list[Tensor]],
    inputs: list[Tensor],
    maximum_iterations: int | None,
    as_kernel: bool,
) -> list[Tensor]:
    mesh, shapes = inputs[0].mesh, [x.shape for x in inputs]

    def named(values: Sequence[tf.Tensor]) -> list[Tensor]:
        # On a mesh, laying the state out as it came in brings the process down: there must be an
        # operation between.
        apart = map(tf.stop_gradient, values)
        return [Tensor(mesh, shape, value) for shape, value in zip(shapes, apart, strict=True)]

    def body(*values: tf.Tensor) -> list[tf.Tensor]:
        state = body_fn(*named(values))
        return [
            _as_known(transpose(x, shape).value, shape)
            for x, shape in zip(state, shapes, strict=True)
        ]

    def condition(*values: tf.Tensor) -> tf.Tensor:
        holds = cond_fn(*named(values))
        wrong = holds.shape.ndims > 0 or not holds.dtype.is_bool
        found = f"the condition is {holds.dtype.name} {holds.shape}, not one bool"
        refuse("while_loop", [found if wrong else None])
        return holds.value

    def run(*values: tf.Tensor) -> list[tf.Tensor]:
        return tf.while_loop(
            condition,
            body,
            list(values),
            shape_invariants=[static_shape(shape) for shape in shapes],
            maximum_iterations=maximum_iterations,
            # On a mesh two functions of one process must not share a name; loops make functions.
            name=f"loop_{next(_loops)}_",
        )

    run = mesh.engine.kernel(run) if as_kernel else run
    final = run(*[_as_known(x.value, x.shape) for x in inputs])
    return [make(mesh, value, shape) for value, shape in zip(final, shapes, strict=True)]


def _as_known(value: tf.Tensor, shape: Shape) -> tf.Tensor:
    """The value, of the sizes that are known before the graph runs: a loop needs to be told."""
    if not tf.executing_eagerly():
        value.set_shape(static_shape(shape))
    return value


def _check_state(
    found: Sequence[Tensor], state: Sequence[Tensor], count: int, has_accumulators: bool
) -> None:
    faults = []
    if len(found) < count or len(found) > count and not has_accumulators:
        faults = [f"the body returns {len(found)} tensors for a state of {count}"]
    for i, (x, before) in enumerate(zip(found, state[:count], strict=False)):
        if set(x.shape) != set(before.shape) or x.dtype != before.dtype:
            faults.append(
                f"number {i} of the state is {before.dtype.name} {before.shape}, and the body "
                f"returns {x.dtype.name} {x.shape}"
            )
    refuse("while_loop", faults)


def _traced(body_fn: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor]) -> list[Tensor]:
    """What the body returns, as symbols: shapes and dtypes are wanted."""
    found: list[Tensor] = []

    def trace() -> None:
        found.extend(body_fn(*(zeros(x.mesh, x.shape, x.dtype) for x in inputs)))

    tf.function(trace, autograph=False).get_concrete_function()
    return found


def _empty_sum(like: Tensor) -> Tensor:
    narrow = like.dtype in (tf.bfloat16, tf.float16)
    return zeros(like.mesh, like.shape, tf.float32 if narrow else like.dtype)
