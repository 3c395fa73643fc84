"""Adaptive computation time: each position decides after how many steps it is done."""

from __future__ import annotations

from collections.abc import Callable

import mtf_models.mesh as mtf
from mtf_models.layers.dense import dense
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import zeros
from mtf_models.transformer.context import Context


def adaptive_computation(
    context: Context,
    x: Tensor,
    transform: Callable[[Tensor, int], tuple[Tensor, Tensor]],
    max_steps: int,
    epsilon: float,
    act_type: str,
) -> Tensor:
    """A mean of the states of all steps, by the probabilities to halt there.

    With "accumulated" each state counts with its probability (Graves 2016, section 2). Otherwise,
    as in the original, what was made so far is kept with 1 - the probability of each later step.

    Args:
        context: of the call.
        x: [batch, length, d_model].
        transform: takes a state and a step; gives what the step sees of the state, from which its
            probability to halt is computed, and the next state.
        max_steps: how many steps are made; a position that has halted keeps its result.
        epsilon: a position halts when its probabilities sum to more than 1 - epsilon.
        act_type: "basic", a probability for each position; "global", one for a sequence;
            "random", drawn uniformly; "accumulated", where weighted states are added without
            replacing earlier ones.

    Returns:
        [batch, length, d_model].
    """
    rows = x.shape - context.d_model
    halting = mtf.zeros(x.mesh, rows)
    result = mtf.zeros(x.mesh, x.shape, x.dtype)
    state = x
    for step in range(max_steps):
        seen, transformed = transform(state, step)
        p = _halting_probability(context, seen, act_type)
        running = mtf.to_float(mtf.less(halting, 1.0))
        halts = mtf.to_float(mtf.greater(halting + p * running, 1.0 - epsilon)) * running
        goes_on = running - halts
        remainder = 1.0 - (halting + p * goes_on)
        weight = p * goes_on + remainder * halts
        halting += weight
        state = transformed
        share = mtf.cast(weight, x.dtype)
        kept = result if act_type == "accumulated" else result * (1.0 - share)
        result = kept + transformed * share
    return result


def _halting_probability(context: Context, x: Tensor, act_type: str) -> Tensor:
    """[batch, length] float32."""
    if act_type == "random":
        return mtf.random_uniform(x.mesh, x.shape - context.d_model)
    one = Dimension("halting", 1)
    dtype = context.variable_dtype
    with mtf.variable_scope("sigmoid_activation_for_pondering"):
        y = dense(x, [one], [context.d_model], use_bias=False, variable_dtype=dtype, name="dense")
        with mtf.variable_scope("dense_1"):
            y += mtf.get_variable(x.mesh, "bias", Shape([one]), dtype, zeros())
    p = mtf.to_float(mtf.reshape(mtf.sigmoid(y), y.shape - one))
    if act_type != "global":
        return p
    return mtf.broadcast(_mean_over_length(context, p), p.shape)


def _mean_over_length(context: Context, p: Tensor) -> Tensor:
    if context.nonpadding is None:
        return mtf.reduce_mean(p, reduced_dim=context.length_dim)
    real = mtf.to_float(context.nonpadding)
    total = mtf.reduce_sum(p * real, reduced_dim=context.length_dim)
    count = mtf.reduce_sum(real, reduced_dim=context.length_dim)
    return total / mtf.maximum(count, 1.0)
