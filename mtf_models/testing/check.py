"""Runs a function of named tensors on meshes and layouts and compares it with a reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from mtf_models.mesh.dimension import Shape, ShapeLike
from mtf_models.mesh.elementwise import add_n
from mtf_models.mesh.gradient import gradients
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.reduce import reduce_sum
from mtf_models.mesh.tensor import Tensor, import_tf_tensor
from mtf_models.testing.layouts import ONE_DEVICE, Placement, covering

Function = Callable[..., Tensor | Sequence[Tensor]]
Inputs = Mapping[str, tuple[ShapeLike, np.ndarray]]
Arrays = list[np.ndarray]
Reference = Callable[..., np.ndarray | Sequence[np.ndarray]]
Placements = Callable[[list[ShapeLike]], Sequence[Placement]]
GradientReference = Callable[..., Mapping[str, np.ndarray]]

_STEP = 1e-5


@dataclass(frozen=True)
class Outcome:
    """What a function gave.

    Attributes:
        shapes: the named shapes of its results.
        values: its results.
        gradients: for each input that was asked for, the derivative of the sum of the floating
            results, each weighted by `cotangent`.
    """

    shapes: list[Shape]
    values: Arrays
    gradients: dict[str, np.ndarray]


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
    """
    arrays = {name: _rounded(array) for name, (_, array) in inputs.items()}
    if differentiate is None:
        differentiate = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    expected = run_op(function, inputs, ONE_DEVICE, differentiate=differentiate)
    if placements is None or callable(placements):
        choose = placements or covering
        placements = choose([*(shape for shape, _ in inputs.values()), *expected.shapes])
    if reference is not None:
        slopes = gradient_reference or _finite_differences(reference, list(arrays), differentiate)
        values, derivatives = _exactly(reference, slopes if differentiate else None, arrays)
        expected = Outcome(expected.shapes, values, derivatives)
    faults = []
    for placement, mode in itertools.product(placements, modes):
        compiled = {"eager": False, "compiled": True}[mode]
        try:
            found = run_op(
                function, inputs, placement, compiled=compiled, differentiate=differentiate
            )
        except Exception as error:
            error.add_note(f"On {placement}, {mode}.")
            raise
        faults += [f"{placement}, {mode}: {f}" for f in _faults(found, expected, rtol, atol)]
    if faults:
        raise AssertionError("\n".join(faults))


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
        name: import_tf_tensor(mesh, _rounded(array), shapes[name]).value
        for name, (_, array) in inputs.items()
    }
    found: list[Shape] = []

    def step(values: dict[str, tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        tensors = {name: Tensor(mesh, shapes[name], values[name]) for name in inputs}
        with tf.GradientTape() as tape:
            tape.watch([values[name] for name in differentiate])
            outputs = _as_list(function(*tensors.values()))
            found[:] = [x.shape for x in outputs]
            floating = [_weighted(x) for x in outputs if x.dtype.is_floating]
            loss = add_n(floating) if floating and differentiate else None
        slopes = (
            gradients(tape, loss, [tensors[n] for n in differentiate]) if loss is not None else []
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
    _assert_laid_out(mesh, [*found, *(shapes[n] for n in slopes_by_name)], [*values, *slopes])
    fetched = [mesh.engine.fetch(value) for value in values]
    slopes_fetched = {n: mesh.engine.fetch(g) for n, g in slopes_by_name.items()}
    return Outcome(list(found), fetched, slopes_fetched)


def cotangent(sizes: Sequence[int]) -> np.ndarray:
    """Fixed weights between -1 and 1, one for each element of a result of these sizes."""
    return np.random.default_rng(len(sizes)).uniform(-1, 1, sizes).astype(np.float32)


def _weighted(x: Tensor) -> Tensor:
    weights = import_tf_tensor(x.mesh, cotangent(x.shape.to_integer_list), x.shape, x.dtype)
    return reduce_sum(x * weights)


def _exactly(
    reference: Reference, slopes: GradientReference | None, arrays: Mapping[str, np.ndarray]
) -> tuple[Arrays, dict[str, np.ndarray]]:
    """The values and gradients of a reference, computed in float64."""
    exact = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays.values()]
    values = _as_list(reference(*exact))
    dy = [cotangent(value.shape) for value in values if value.dtype.kind == "f"]
    return values, dict(slopes(dy, *exact)) if slopes and dy else {}


def _finite_differences(
    reference: Reference, names: Sequence[str], differentiate: Sequence[str]
) -> GradientReference:
    """Central differences of the weighted sum of a reference, element by element."""

    def slopes(dy: Arrays, *arrays: np.ndarray) -> dict[str, np.ndarray]:
        def loss() -> float:
            values = [v for v in _as_list(reference(*arrays)) if v.dtype.kind == "f"]
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


def _faults(found: Outcome, expected: Outcome, rtol: float, atol: float) -> list[str]:
    pairs = [
        (f"result {i}", value, right)
        for i, (value, right) in enumerate(zip(found.values, expected.values, strict=True))
    ]
    pairs += [
        (f"gradient of {n}", slope, expected.gradients[n]) for n, slope in found.gradients.items()
    ]
    return [f"{what} {fault}" for what, x, y in pairs if (fault := _difference(x, y, rtol, atol))]


def _difference(found: np.ndarray, right: np.ndarray, rtol: float, atol: float) -> str | None:
    if found.shape != right.shape:
        return f"has shape {list(found.shape)} instead of {list(right.shape)}"
    if right.dtype.kind != "f":
        wrong = np.asarray(found != right)
    else:
        found, right = found.astype(np.float64), right.astype(np.float64)
        finite = np.abs(right[np.isfinite(right)])
        scale = max(1.0, float(finite.max(initial=0.0)))
        wrong = ~np.isclose(found, right, rtol=rtol, atol=atol * scale, equal_nan=True)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"differs at {wrong.sum()} of {wrong.size}; at {at} {found[at]} instead of {right[at]}"


def _assert_laid_out(mesh: Mesh, shapes: Sequence[Shape], values: Sequence[tf.Tensor]) -> None:
    if mesh.size == 1:
        return
    for shape, value in zip(shapes, values, strict=True):
        specs = dtensor.fetch_layout(value).sharding_specs
        actual = tuple(None if spec == dtensor.UNSHARDED else spec for spec in specs)
        assert actual == mesh.layout(shape), f"{shape} lies as {actual} on {mesh!r}"


def _rounded(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]
