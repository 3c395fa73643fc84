"""What tells the steps of a recurrence, and the positions in them, apart."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.layers.dense import dense
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import random_normal
from mtf_models.transformer.context import Context
from mtf_models.transformer.positions import sinusoid_positions


def step_signal(context: Context, step: int, num_steps: int, kind: str) -> Tensor:
    """[d_model]: a row of a table with one row for each step.

    The learned table is multiplied by the root of d_model, and drawn smaller by it.

    Args:
        context: of the call.
        step: which row; beyond the table there is no signal, which is zeros.
        num_steps: how many rows there are.
        kind: "learned", the variable `layer_embedding`, or "sinusoid".
    """
    steps = Dimension("steps", num_steps)
    if kind == "learned":
        table = mtf.get_variable(
            context.mesh,
            "layer_embedding",
            Shape([steps, context.d_model]),
            context.variable_dtype,
            random_normal(context.d_model.size**-0.5),
        ) * (context.d_model.size**0.5)
    else:
        sinusoids = sinusoid_positions(context.mesh, steps, context.d_model)
        table = mtf.cast(sinusoids, context.activation_dtype)
    return mtf.gather(table, mtf.constant(context.mesh, step, dtype="int32"), steps)


def position_signal(context: Context, step: int, num_steps: int, start: str | None) -> Tensor:
    """[length, d_model]: sinusoids of the positions.

    Args:
        context: of the call.
        step: of the recurrence.
        num_steps: how many steps there are.
        start: what is added to the positions: None for nothing, "step" for the step's part of the
            length, "random" for a random part of it, in training only.
    """
    # A prefill reads fewer positions than the steps after it will see.
    length = context.cache_length or context.memory_length_dim.size
    shift = length * step // num_steps if start == "step" else 0
    position = context.position + shift
    if start == "random" and context.is_training:
        position += mtf.random_uniform(context.mesh, [], maxval=length, dtype="int32")
    places = Dimension("position", 2 * length)
    table = sinusoid_positions(context.mesh, places, context.d_model)
    return mtf.cast(mtf.gather(table, position, places), context.activation_dtype)


def joined(context: Context, x: Tensor, signals: list[Tensor], how: str) -> Tensor:
    """The state with the signals of its step.

    Args:
        context: of the call.
        x: [batch, length, d_model].
        signals: without some of the dimensions of `x`.
        how: "add", or "concat" for a linear map of all of them side by side to d_model.
    """
    if not signals:
        return x
    if how == "add":
        for signal in signals:
            x = mtf.add(x, signal, output_shape=x.shape)
        return x
    parts = [x, *(mtf.broadcast(signal, x.shape) for signal in signals)]
    wide = mtf.concat(parts, context.d_model.name)
    reduced = [wide.shape.get_dim_by_name(context.d_model.name)]
    new = Dimension("d_model_joined", context.d_model.size)
    dtype = context.variable_dtype
    y = dense(wide, [new], reduced, use_bias=False, variable_dtype=dtype, name="timing_signal")
    return mtf.rename_dimension(y, new.name, context.d_model.name)
