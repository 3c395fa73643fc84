"""Chains of operations that an engine may compile into one kernel, or at least trace once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_models.mesh import scopes
from mtf_models.mesh.dimension import Shape
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.tensor import Tensor, operation

Run = Callable[..., list[tf.Tensor]]


class Kernel(NamedTuple):
    """A chain as one function, and the shapes of its results, known once it has been traced."""

    run: Run
    shapes: list[Shape]


@operation
def fused(
    key: Hashable, function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """Computes `function(*inputs)`, in one pass over memory where the engine can.

    This is for chains whose values between take more memory than what goes in and comes out, such
    as float32 ones of bfloat16 tensors. On one device, in a compiled function and for tensors that
    are large enough, XLA compiles the chain; elsewhere its operations run one by one. Call it in
    both functions of a `custom_gradient`: XLA's own derivative keeps all the values between.

    Chains that are not compiled are still traced once on one device, for all calls of a key and
    shapes: the many small variables of a model would take seconds of a first step.

    Args:
        key: what the function computes, and every setting that this depends on: it is compiled
            once for each key and shapes.
        function: takes the tensors and returns several. It draws no random numbers, reads no
            variables and uses no other tensors.
        inputs: what it is given.
    """
    inputs = list(inputs)
    mesh = inputs[0].mesh
    as_function = _as_function(mesh, inputs)
    if as_function is None:
        return list(function(*inputs))
    signature = key, *((x.shape, x.dtype) for x in inputs)
    kernels = mesh.engine.kernels
    if signature not in kernels:
        kernels[signature] = _kernel(function, inputs, as_function)
    kernel = kernels[signature]
    values = kernel.run(*[x.value for x in inputs])
    return [Tensor(mesh, s, v) for s, v in zip(kernel.shapes, values, strict=True)]


def _as_function(mesh: Mesh, inputs: Sequence[Tensor]) -> Callable[[Run], Run] | None:
    """What makes a function of a chain on these inputs; None if its operations stay single."""
    if tf.executing_eagerly():
        return None
    sizes = [x.value.shape.num_elements() for x in inputs]
    # A size that is known only when the graph runs counts as small.
    if max(size or 0 for size in sizes) >= mesh.engine.least_fused:
        return mesh.engine.kernel
    return None if None in sizes or scopes.in_kernel() else mesh.engine.called


def _kernel(
    function: Callable[..., Sequence[Tensor]],
    like: Sequence[Tensor],
    as_function: Callable[[Run], Run],
) -> Kernel:
    mesh, given = like[0].mesh, [x.shape for x in like]
    found: list[Shape] = []

    def run(*values: tf.Tensor) -> list[tf.Tensor]:
        outputs = function(*[Tensor(mesh, s, v) for s, v in zip(given, values, strict=True)])
        found[:] = [x.shape for x in outputs]
        return [x.value for x in outputs]

    return Kernel(as_function(run), found)
