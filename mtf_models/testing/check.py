"""Runs a function of named tensors on meshes and layouts and compares it with a reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from mtf_models.errors import ConfigError
from mtf_models.mesh.dimension import Shape, ShapeLike
from mtf_models.mesh.elementwise import add_n, to_float
from mtf_models.mesh.gradient import gradients
from mtf_models.mesh.tensor import Tensor, import_tf_tensor
from mtf_models.testing.layouts import ONE_DEVICE, Placement, covering
from mtf_models.testing.outcome import (
    Arrays,
    Outcome,
    as_list,
    assert_laid_out,
    check_modes,
    cotangent,
    differences,
    rounded,
    tensors,
    weighted_sum,
)

Function = Callable[..., Tensor | Sequence[Tensor]]
Inputs = Mapping[str, tuple[ShapeLike, np.ndarray]]
Reference = Callable[..., np.ndarray | Sequence[np.ndarray]]
Placements = Callable[..., Sequence[Placement]]
GradientReference = Callable[..., Mapping[str, np.ndarray]]

_STEP = 1e-5


def check_op(
    function: Function,
    inputs: Inputs,
    reference: Reference | None = None,
    *,
    placements: Sequence[Placement] | Placements | None = None,
    differentiate: Sequence[str] | None = None,
    gradient_reference: GradientReference | None = None,
    modes: Sequence[str] = ("eager", "compiled"),
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Asserts that a function gives the reference's values and gradients wherever it runs.

    Every tensor that comes out must also lie as the layout rules say.

    Args:
        function: takes the inputs as `mtf.Tensor`s, in order, returns one tensor or several.
        inputs: for each name a named shape and an array; float64 is rounded to float32 first.
        reference: takes the arrays, floating ones as float64, and returns arrays whose axes are in
            the order of the results. By default `function` on one device.
        placements: where to run, or a function that chooses from the shapes of the inputs and
            results: `covering`, which is the default, `most_split` or `all_admissible`.
        differentiate: the inputs to differentiate by; by default those of a floating dtype. Empty
            if the function has no gradient. Without floating results there are no gradients.
        gradient_reference: takes a list of the cotangents of the floating results and the arrays,
            and returns the gradients by name. By default the reference's finite differences, or
            with no reference the gradients on one device.
        modes: how to run, "eager", "compiled" or both.
        rtol: relative tolerance.
        atol: absolute tolerance, times the largest magnitude that is expected where above 1.

    Raises:
        AssertionError: listing every placement, mode and value that differs.
        ConfigError: if a mode or an input to differentiate by has another name.
        ShapeError: if the function returns something else than named tensors.
    """
    arrays = {name: rounded(array) for name, (_, array) in inputs.items()}
    if differentiate is None:
        differentiate = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    _check_names(modes, differentiate, arrays)
    expected = run_op(function, inputs, ONE_DEVICE, differentiate=differentiate)
    if placements is None or callable(placements):
        choose = placements or covering
        placements = choose([*(shape for shape, _ in inputs.values()), *expected.shapes])
    if reference is not None:
        slopes = gradient_reference or finite_differences(reference, list(arrays), differentiate)
        values, derivatives = _exactly(reference, slopes if differentiate else None, arrays)
        expected = Outcome(expected.shapes, values, derivatives)
    faults = []
    for placement, mode in itertools.product(placements, modes):
        how = {"compiled": mode == "compiled", "differentiate": differentiate}
        try:
            found = run_op(function, inputs, placement, **how)
        except Exception as error:
            error.add_note(f"On {placement}, {mode}.")
            raise
        faults += [f"{placement}, {mode}: {f}" for f in differences(found, expected, rtol, atol)]
    if faults:
        raise AssertionError("\n".join(faults))


def _check_names(
    modes: Sequence[str], differentiate: Sequence[str], inputs: Mapping[str, np.ndarray]
) -> None:
    check_modes(modes)
    unknown = [repr(name) for name in differentiate if name not in inputs]
    if unknown:
        raise ConfigError(f"No input is called {', '.join(unknown)}; known: {', '.join(inputs)}.")


def run_op(
    function: Function,
    inputs: Inputs,
    placement: Placement,
    *,
    compiled: bool = False,
    differentiate: Sequence[str] = (),
) -> Outcome:
    """Runs a function once on one mesh, with gradients.

    Args:
        function: takes the inputs as `mtf.Tensor`s, in order, returns one tensor or several.
        inputs: for each name a named shape and an array.
        placement: the mesh and its rules.
        compiled: whether in a `tf.function`.
        differentiate: the inputs to differentiate by.

    Raises:
        AssertionError: if a result does not lie as the rules say.
    """
    mesh = placement.make()
    shapes = {name: Shape(shape) for name, (shape, _) in inputs.items()}
    held = {
        name: import_tf_tensor(mesh, rounded(array), shapes[name]).value
        for name, (_, array) in inputs.items()
    }
    found: list[Shape] = []

    def step(values: dict[str, tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        named = {name: Tensor(mesh, shapes[name], values[name]) for name in inputs}
        with tf.GradientTape() as tape:
            tape.watch([values[name] for name in differentiate])
            outputs = tensors(function(*named.values()))
            found[:] = [x.shape for x in outputs]
            floating = [to_float(weighted_sum(x)) for x in outputs if x.dtype.is_floating]
            loss = add_n(floating) if floating and differentiate else None
        slopes = (
            gradients(tape, loss, [named[n] for n in differentiate]) if loss is not None else []
        )
        return [x.value for x in outputs], [x.value for x in slopes]

    if compiled:
        with mesh.calling():
            # Called as a function of one signature, TensorFlow does not warn of retracing.
            compiled_step = tf.function(step, autograph=False).get_concrete_function(held)
            values, slopes = compiled_step(held)
    else:
        values, slopes = step(held)
    slopes_by_name = dict(zip(differentiate, slopes, strict=bool(slopes)))
    assert_laid_out(mesh, [*found, *(shapes[n] for n in slopes_by_name)], [*values, *slopes])
    fetched = [mesh.engine.fetch(value) for value in values]
    slopes_fetched = {n: mesh.engine.fetch(g) for n, g in slopes_by_name.items()}
    return Outcome(list(found), fetched, slopes_fetched)


def _exactly(
    reference: Reference, slopes: GradientReference | None, arrays: Mapping[str, np.ndarray]
) -> tuple[Arrays, dict[str, np.ndarray]]:
    """The values and gradients of a reference, computed in float64."""
    exact = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays.values()]
    values = _results(reference, exact)
    dy = [cotangent(value.shape) for value in values if value.dtype.kind == "f"]
    return values, dict(slopes(dy, *exact)) if slopes and dy else {}


def _results(reference: Reference, arrays: Sequence[np.ndarray]) -> Arrays:
    return [np.asarray(value) for value in as_list(reference(*arrays))]


def finite_differences(
    reference: Reference, names: Sequence[str], differentiate: Sequence[str]
) -> GradientReference:
    """Central differences of the weighted sum of a reference, element by element."""

    def slopes(dy: Arrays, *arrays: np.ndarray) -> dict[str, np.ndarray]:
        def loss() -> float:
            values = [v for v in _results(reference, arrays) if v.dtype.kind == "f"]
            return sum(float(np.sum(v * w)) for v, w in zip(values, dy, strict=True))

        return {n: _slope(loss, arrays[names.index(n)]) for n in differentiate}

    return slopes


def _slope(loss: Callable[[], float], array: np.ndarray) -> np.ndarray:
    slope = np.zeros_like(array)
    for index in np.ndindex(*array.shape):
        kept = array[index]
        array[index] = kept + _STEP
        above = loss()
        array[index] = kept - _STEP
        slope[index] = (above - loss()) / (2 * _STEP)
        array[index] = kept
    return slope
