"""Linear maps between named dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.layers.activation import Activation, activated_product
from mtf_models.layers.initialization import VarianceScalingInitializer
from mtf_models.layers.unit_scaling import us_einsum
from mtf_models.mesh import Dimension, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import Initializer, zeros


def dense(
    x: Tensor,
    new_dims: Sequence[Dimension],
    reduced_dims: Sequence[Dimension] | None = None,
    expert_dims: Sequence[Dimension] | None = None,
    use_bias: bool = True,
    activation: Activation | None = None,
    variable_dtype: VariableDType | None = None,
    kernel_initializer: Initializer | None = None,
    kernel_weights: Tensor | None = None,
    name: str = "dense",
) -> Tensor:
    """activation(x W + b), in variables `<name>/kernel` and `<name>/bias`.

    Args:
        x: has `reduced_dims` and `expert_dims`.
        new_dims: the dimensions that take the place of `reduced_dims`.
        reduced_dims: by default the last dimension of `x`.
        expert_dims: dimensions of `x` along which each entry has a kernel of its own.
        use_bias: whether to add a bias, zero at first.
        activation: the name of an operation, or a function.
        variable_dtype: dtypes of kernel and bias; by default float32 variables, activations as `x`.
        kernel_initializer: by default variance 1 / fan_in.
        kernel_weights: used in place of `<name>/kernel`, which is then not made.
        name: the variable scope.

    Returns:
        A tensor with the dimensions of `x` less `reduced_dims`, then `new_dims`.

    Raises:
        ShapeError: if `x` lacks a dimension, or `kernel_weights` has other ones.
    """
    reduced = list(reduced_dims) if reduced_dims is not None else [x.shape.dims[-1]]
    new, experts = list(new_dims), list(expert_dims or ())
    shape = Shape(experts + reduced + new)
    lacking = [d for d in experts + reduced if d not in x.shape]
    odd = kernel_weights is not None and set(kernel_weights.shape) != set(shape)
    refuse(
        f"{name}, a dense layer on {x.shape}",
        [
            f"the input has no {', '.join(map(str, lacking))}" if lacking else None,
            f"kernel_weights are {kernel_weights.shape}, not {shape}" if odd else None,
        ],
    )
    dtype = variable_dtype or VariableDType(activation=x.dtype)
    output_shape = Shape([d for d in x.shape if d not in reduced] + new)
    with mtf.variable_scope(name):
        if kernel_weights is None:
            initializer = kernel_initializer or VarianceScalingInitializer()(reduced, new)
            kernel_weights = mtf.get_variable(x.mesh, "kernel", shape, dtype, initializer)
        y = us_einsum([x, kernel_weights], output_shape)
        if use_bias:
            y += mtf.get_variable(x.mesh, "bias", Shape(experts + new), dtype, zeros())
    return y if activation is None else activated_product([y], [activation])


def dense_product(
    x: Tensor,
    new_dims: Sequence[Dimension],
    activation: Activation | Sequence[Activation] = "linear",
    reduced_dims: Sequence[Dimension] | None = None,
    expert_dims: Sequence[Dimension] = (),
    use_bias: bool = False,
    variable_dtype: VariableDType | None = None,
    kernel_initializer: Initializer | None = None,
    name: str = "dense_product",
) -> Tensor:
    """The product of activated dense maps: with two, a gated linear unit (Shazeer 2020).

    Args:
        x: as for `dense`.
        new_dims: as for `dense`.
        activation: one activation, whose kernel is `<name>/kernel`, or several, whose kernels are
            `<name>_0/kernel`, `<name>_1/kernel`, ...
        reduced_dims: as for `dense`.
        expert_dims: as for `dense`.
        use_bias: as for `dense`.
        variable_dtype: as for `dense`.
        kernel_initializer: as for `dense`, of each kernel.
        name: the variable scope.
    """
    single = isinstance(activation, str) or callable(activation)
    activations = [activation] if single else list(activation)
    names = [name] if len(activations) == 1 else [f"{name}_{i}" for i in range(len(activations))]
    maps = [
        dense(
            x,
            new_dims,
            reduced_dims=reduced_dims,
            expert_dims=expert_dims,
            use_bias=use_bias,
            variable_dtype=variable_dtype,
            kernel_initializer=kernel_initializer,
            name=part,
        )
        for part in names
    ]
    return activated_product(maps, activations)
