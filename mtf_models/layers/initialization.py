"""Initial values of dense kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.mesh import initializers
from mtf_models.mesh.dimension import Dimension, Shape
from mtf_models.mesh.initializers import Initializer, unit_scaling_convention


@configurable(module="mesh_tensorflow.layers")
class VarianceScalingInitializer:
    """Random numbers whose variance is `scale` over a number of inputs or outputs.

    Under the unit scaling convention the variance is `scale`.

    Args:
        scale: the variance, times the fan.
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "normal" (truncated at two standard deviations, not corrected for it) or
            "uniform".

    Raises:
        ConfigError: for another mode or distribution.
    """

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "normal"
    ) -> None:
        if mode not in ("fan_in", "fan_out", "fan_avg") or distribution not in (
            "normal",
            "uniform",
        ):
            raise ConfigError(
                f"VarianceScalingInitializer has mode {mode!r} and distribution {distribution!r}; "
                'modes are "fan_in", "fan_out", "fan_avg", distributions "normal", "uniform".'
            )
        self.scale = scale
        self.mode = mode
        self.distribution = distribution

    def __call__(
        self, reduced_dims: Sequence[Dimension], new_dims: Sequence[Dimension]
    ) -> Initializer:
        """An initializer for a kernel from `reduced_dims` to `new_dims`."""
        fan_in, fan_out = Shape(reduced_dims).size, Shape(new_dims).size
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale if unit_scaling_convention() else self.scale / max(1.0, fan)
        if self.distribution == "normal":
            return initializers.truncated_normal(math.sqrt(variance))
        return initializers.random_uniform(math.sqrt(3.0 * variance))


def padded(initializer: Initializer, axis: int, size: int) -> Initializer:
    """Draws only the first `size` entries along `axis` and leaves the rest zero.

    So a table that is padded to divide over a mesh begins with the values of the unpadded one.
    """

    def draw(sizes: Sequence[int], seed: tf.Tensor) -> tf.Tensor:
        inner = list(sizes)
        inner[axis] = size
        margins = [[0, n - m] for n, m in zip(sizes, inner, strict=True)]
        return tf.pad(initializer(inner, seed), margins)

    return draw
