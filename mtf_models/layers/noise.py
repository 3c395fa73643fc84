"""Random changes to activations, for training."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.mesh import Tensor
from mtf_models.mesh.dimension import ShapeLike


def multiplicative_jitter(x: Tensor, epsilon: float = 1e-2) -> Tensor:
    """Each element times a uniform number between 1 - epsilon and 1 + epsilon.

    Args:
        x: any floating tensor.
        epsilon: 0 changes nothing.
    """
    if epsilon == 0:
        return x
    factor = mtf.random_uniform(x.mesh, x.shape, minval=1.0 - epsilon, maxval=1.0 + epsilon)
    return x * mtf.cast(factor, x.dtype)


def annealed_dropout(
    x: Tensor,
    is_training: bool,
    start_step: int,
    end_step: int,
    init_rate: float,
    step: Tensor,
    noise_shape: ShapeLike | None = None,
) -> Tensor:
    """Dropout whose rate falls linearly to 0 between two steps of training, and stays there.

    Args:
        x: any floating tensor.
        is_training: without it `x` is returned.
        start_step: until here the rate is `init_rate`.
        end_step: from here on it is 0.
        init_rate: the part of the elements that is dropped at first.
        step: a scalar, the step of training.
        noise_shape: the dimensions along which the choice differs; by default all.

    Raises:
        ShapeError: if the steps are not in order, or the rate is not from 0 to below 1.
    """
    refuse(
        f"annealed_dropout of {x.shape}",
        [
            f"steps {start_step} to {end_step} are not in order"
            if end_step <= start_step
            else None,
            f"a rate of {init_rate} is not from 0 to below 1" if not 0 <= init_rate < 1 else None,
        ],
    )
    if not is_training or init_rate == 0:
        return x
    left = (end_step - mtf.to_float(step)) / float(end_step - start_step)
    rate = mtf.minimum(mtf.maximum(left, 0.0), 1.0) * init_rate
    shape = x.shape if noise_shape is None else mtf.Shape(noise_shape)
    kept = mtf.greater_equal(mtf.random_uniform(x.mesh, shape), rate)
    scale = mtf.cast(mtf.cast(kept, rate.dtype) / (1.0 - rate), x.dtype)
    return mtf.multiply(x, scale, output_shape=x.shape)
