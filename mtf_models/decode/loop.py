"""The loop over positions that every kind of decoding runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.mesh import Tensor

State = TypeVar("State")


def advance_while(
    goes_on: Callable[[State], Tensor],
    advance: Callable[[State], State],
    state: State,
    as_kernel: bool,
) -> State:
    """Advances a state as long as a condition holds, in one compiled loop.

    Args:
        goes_on: takes a state, returns a bool scalar.
        advance: takes a state, returns the next, of the same structure, shapes and dtypes.
        state: the first; tensors in named tuples and dicts.
        as_kernel: see `mtf.while_loop`.

    Returns:
        The last state.
    """

    def packed(tensors: tuple[Tensor, ...]) -> State:
        return tf.nest.pack_sequence_as(state, list(tensors))

    final = mtf.while_loop(
        lambda *tensors: goes_on(packed(tensors)),
        lambda *tensors: tf.nest.flatten(advance(packed(tensors))),
        tf.nest.flatten(state),
        as_kernel=as_kernel,
    )
    return packed(tuple(final))
