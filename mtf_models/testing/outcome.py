"""What a function of named tensors gave, and how it differs from what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from mtf_models.errors import ConfigError, ShapeError
from mtf_models.mesh.dimension import Shape
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.reduce import reduce_sum
from mtf_models.mesh.tensor import Tensor, import_tf_tensor

Arrays = list[np.ndarray]


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


def cotangent(sizes: Sequence[int]) -> np.ndarray:
    """Fixed weights between -1 and 1, one for each element of a result of these sizes."""
    return np.random.default_rng(len(sizes)).uniform(-1, 1, sizes).astype(np.float32)


def weighted_sum(x: Tensor) -> Tensor:
    """The sum of the elements of a result, each times its `cotangent`."""
    weights = import_tf_tensor(x.mesh, cotangent(x.shape.to_integer_list), x.shape, x.dtype)
    return reduce_sum(x * weights)


def differences(found: Outcome, expected: Outcome, rtol: float, atol: float) -> list[str]:
    """What of an outcome is not what was expected, a line each."""
    if len(found.values) != len(expected.values):
        return [f"has {len(found.values)} results; {len(expected.values)} are expected"]
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


def assert_laid_out(mesh: Mesh, shapes: Sequence[Shape], values: Sequence[tf.Tensor]) -> None:
    """Asserts that values lie as the rules of the mesh say for their shapes."""
    if mesh.size == 1:
        return
    for shape, value in zip(shapes, values, strict=True):
        specs = dtensor.fetch_layout(value).sharding_specs
        actual = tuple(None if spec == dtensor.UNSHARDED else spec for spec in specs)
        assert actual == mesh.layout(shape), f"{shape} lies as {actual} on {mesh!r}"


def tensors(given: Any) -> list[Tensor]:
    """The results of a function that is checked.

    Raises:
        ShapeError: if one of them is no named tensor.
    """
    results = as_list(given)
    others = [type(x).__name__ for x in results if not isinstance(x, Tensor)]
    if others:
        raise ShapeError(
            f"What is checked returned {', '.join(others)}; return an mtf.Tensor, or several."
        )
    return results


def check_modes(modes: Sequence[str]) -> None:
    """Refuses ways to run that there are not.

    Raises:
        ConfigError: listing all of them.
    """
    unknown = [repr(mode) for mode in modes if mode not in ("eager", "compiled")]
    if unknown:
        raise ConfigError(f'There is no mode {", ".join(unknown)}; give "eager", "compiled".')


def rounded(array: Any) -> np.ndarray:
    """An array, float32 if it was float64."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def as_list(values: Any) -> list[Any]:
    """A list of one value or of several."""
    return list(values) if isinstance(values, list | tuple) else [values]
