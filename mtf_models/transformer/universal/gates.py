"""Gates between a state and what a layer or a step made of it."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.layers.dense import dense
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import constant
from mtf_models.transformer.context import Context

TRANSFORM_BIAS = -1.0
"""At first a gate lets most of the old state through (Srivastava et al. 2015, section 2.2)."""


def gate(
    context: Context, inputs: list[Tensor], name: str, ffn: str = "dense", bias: float = 0.0
) -> Tensor:
    """[..., d_model] between 0 and 1: sigmoid of a map of the inputs side by side.

    Args:
        context: of the call.
        inputs: each [..., d_model].
        name: the variable scope.
        ffn: "dense" for a linear map, "dense_relu_dense" for one with a hidden layer of the width
            of the inputs together.
        bias: the initial bias.
    """
    return mtf.sigmoid(_side_by_side(context, inputs, name, ffn, bias))


def highway(
    context: Context,
    state: Tensor,
    transformed: Tensor,
    inputs: list[Tensor],
    ffn: str = "dense",
    coupled: bool = True,
) -> Tensor:
    """Carry * state + transform * transformed (Srivastava et al. 2015, equation 2).

    Args:
        context: of the call.
        state: [..., d_model], before.
        transformed: [..., d_model], after.
        inputs: what the gates see.
        ffn: see `gate`.
        coupled: whether carry is 1 - transform; else it is a gate of its own.
    """
    transform = gate(context, inputs, "transform", ffn, TRANSFORM_BIAS)
    if coupled:
        carry = 1.0 - transform
    else:
        carry = gate(context, inputs, "carry", ffn, -TRANSFORM_BIAS)
    return state * carry + transformed * transform


def gated_recurrent_unit(
    context: Context, state: Tensor, transformed: Tensor, ffn: str = "dense"
) -> Tensor:
    """(1 - update) * state + update * candidate (Cho et al. 2014; Parisotto et al. 2020, GTrXL).

    Args:
        context: of the call.
        state: [..., d_model], before.
        transformed: [..., d_model], after.
        ffn: see `gate`.
    """
    update = gate(context, [state, transformed], "update", ffn, TRANSFORM_BIAS)
    reset = gate(context, [state, transformed], "reset", ffn)
    seen = [state * reset, transformed]
    candidate = mtf.tanh(_side_by_side(context, seen, "candidate", ffn, 0.0))
    return state * (1.0 - update) + candidate * update


def _side_by_side(
    context: Context, inputs: list[Tensor], name: str, ffn: str, bias: float
) -> Tensor:
    d_model, dtype = context.d_model, context.variable_dtype
    wide = mtf.concat(inputs, d_model.name) if len(inputs) > 1 else inputs[0]
    reduced = [wide.shape.get_dim_by_name(d_model.name)]
    new = Dimension("d_model_gate", d_model.size)
    with mtf.variable_scope(name):
        if ffn == "dense_relu_dense":
            hidden = Dimension("d_ff", reduced[0].size)
            wide = dense(wide, [hidden], reduced, activation="relu", variable_dtype=dtype)
            reduced = [hidden]
        y = dense(wide, [new], reduced, use_bias=False, variable_dtype=dtype, name="gate")
        shape = Shape([new])
        y += mtf.get_variable(context.mesh, "gate_bias", shape, dtype, constant(bias))
    return mtf.rename_dimension(y, new.name, d_model.name)
