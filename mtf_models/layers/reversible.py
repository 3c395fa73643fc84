"""Reversible residual layers (Gomez et al. 2017), whose inner function can be computed again."""

from __future__ import annotations

from collections.abc import Callable

import mtf_models.mesh as mtf
from mtf_models.mesh import Tensor


def reversible_half_residual_and_swap(
    x1: Tensor,
    x1_backwards: Tensor | None,
    x2: Tensor,
    x2_backwards: Tensor | None,
    f: Callable[[Tensor], Tensor],
    recompute_grads: bool = True,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
    """(x2, x1 + f(x2)): half of a reversible residual layer, with its halves swapped.

    The original handed the reconstructed inputs on beside the activations, since its graph was
    built backwards by hand. Here the memory that the reconstruction saves is saved by computing
    `f` again (`mtf.recompute_grad`); what a caller hands in is handed on, swapped alike.

    Args:
        x1: one half of the activations.
        x1_backwards: what goes with it, or None.
        x2: the other half, of the same shape.
        x2_backwards: what goes with it, or None.
        f: takes one half, returns a tensor of its shape.
        recompute_grads: whether `f` keeps no intermediate values for the gradient.

    Returns:
        The new `x1`, `x1_backwards`, `x2`, `x2_backwards`.
    """
    fx2 = mtf.recompute_grad(f, [x2]) if recompute_grads else f(x2)
    return x2, x2_backwards, x1 + fx2, x1_backwards
