"""Activations, and products of activated tensors, with their gradients written out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError, did_you_mean
from mtf_models.mesh import Tensor

Activation = str | Callable[[Tensor], Tensor]

ACTIVATIONS = (
    "abs",
    "cos",
    "elu",
    "exp",
    "gelu",
    "gelu_exact",
    "identity",
    "leaky_relu",
    "linear",
    "relu",
    "selu",
    "sigmoid",
    "sin",
    "softplus",
    "square",
    "squared_relu",
    "swish",
    "tanh",
)
"""The operations that an activation may name."""


def activation_function(activation: Activation | None) -> Callable[[Tensor], Tensor]:
    """The operation that an activation names.

    Raises:
        ConfigError: if it names none of `ACTIVATIONS`, with the nearest.
    """
    if activation is None:
        return mtf.linear
    if callable(activation):
        return activation
    if activation not in ACTIVATIONS:
        raise ConfigError(
            f"No activation is called {activation!r}{did_you_mean(str(activation), ACTIVATIONS)}"
        )
    return getattr(mtf, activation)


def activated_product(xs: Sequence[Tensor], activations: Sequence[Activation]) -> Tensor:
    """The product of f(x) over tensors x of one shape with an activation f for each.

    With two it is the gate of Shazeer 2020 (https://arxiv.org/abs/2002.05202). Where all the
    derivatives are known it is computed in float32, and nothing but `xs` is kept for the gradient.

    Args:
        xs: of equal shapes and dtypes.
        activations: as many.

    Raises:
        ConfigError: if an activation has a name that is not one of `ACTIVATIONS`.
    """
    functions = [activation_function(a) for a in activations]
    if not all(a in _DERIVATIVES for a in activations) or {*activations} <= _CHEAP:
        return _product([f(x) for f, x in zip(functions, xs, strict=True)])
    key = "activated product", *activations

    def forward(*xs: Tensor) -> list[Tensor]:
        factors = [f(mtf.to_float(x)) for f, x in zip(functions, xs, strict=True)]
        return [mtf.cast(_product(factors), xs[0].dtype)]

    def backward(dy: Tensor, *xs: Tensor) -> list[Tensor]:
        wide = [mtf.to_float(x) for x in xs]
        factors = [f(x) for f, x in zip(functions, wide, strict=True)]
        slopes = [_DERIVATIVES[a](x) for a, x in zip(activations, wide, strict=True)]
        dy = mtf.to_float(dy)
        parts = [
            _product([dy, slope, *factors[:i], *factors[i + 1 :]]) for i, slope in enumerate(slopes)
        ]
        return [mtf.cast(part, x.dtype) for part, x in zip(parts, xs, strict=True)]

    return mtf.custom_gradient(
        lambda *xs: mtf.fused(key, forward, xs)[0],
        lambda *values: mtf.fused((*key, "gradient"), backward, [values[-1], *values[:-2]]),
        xs,
    )


def _product(factors: Sequence[Tensor]) -> Tensor:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


def _gelu_derivative(x: Tensor) -> Tensor:
    """Of the form with tanh (Hendrycks and Gimpel 2016, section 2)."""
    root, cubic = math.sqrt(2 / math.pi), 0.044715
    squared = mtf.square(x)
    t = mtf.tanh(x * (squared * cubic + 1.0) * root)
    inner = (squared * (3 * cubic) + 1.0) * root
    return (t + 1.0) * 0.5 + x * (1.0 - mtf.square(t)) * inner * 0.5


def _sigmoid_derivative(x: Tensor) -> Tensor:
    y = mtf.sigmoid(x)
    return y * (1.0 - y)


def _swish_derivative(x: Tensor) -> Tensor:
    y = mtf.sigmoid(x)
    return y * (x * (1.0 - y) + 1.0)


_DERIVATIVES: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": _gelu_derivative,
    "identity": mtf.ones_like,
    "linear": mtf.ones_like,
    "relu": lambda x: mtf.to_float(mtf.greater(x, 0.0)),
    "sigmoid": _sigmoid_derivative,
    "squared_relu": lambda x: mtf.relu(x) * 2.0,
    "swish": _swish_derivative,
    "tanh": lambda x: 1.0 - mtf.square(mtf.tanh(x)),
}
_CHEAP = {"identity", "linear", "relu"}
"""A product of these alone is not worth a gradient of its own."""
