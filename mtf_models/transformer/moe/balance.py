"""Losses of a router: that experts are used evenly, and that logits stay small."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.mesh import Tensor
from mtf_models.transformer.moe.gates import Gates


def balance_of_choices(
    gates: Gates, wanted: Tensor, probabilities: Tensor, padding_takes_part: bool
) -> Tensor:
    """Experts x the sum over experts of share of tokens x mean probability.

    Fedus et al. 2021, equations 4 to 6, without the coefficient: 1 if both are even, the number of
    experts if one gets everything. Groups count by their tokens.

    With `Gates.counts_padding` the means are over all positions of a group, as in the original:
    padding lowers them, or (`padding_takes_part`) is routed like tokens before they are taken.

    Args:
        gates: of the router.
        wanted: [..., group, experts] float32, 1 where a token wants an expert.
        probabilities: [..., group, experts] float32.
        padding_takes_part: see above.

    Returns:
        A scalar.
    """
    experts, group = gates.experts, gates.group
    scale = float(experts.size)
    if gates.real is None or not (gates.counts_padding and padding_takes_part):
        wanted, probabilities = gates.masked(wanted), gates.masked(probabilities)
    share = mtf.reduce_sum(wanted, reduced_dim=group)
    probability = mtf.reduce_sum(probabilities, reduced_dim=group)
    product = mtf.reduce_sum(share * probability, reduced_dim=experts) * scale
    tokens = gates.group_tokens
    if gates.real is None or not gates.counts_padding:
        weighted = product / mtf.maximum(tokens, 1.0)
        return mtf.reduce_sum(weighted) / mtf.maximum(mtf.reduce_sum(tokens), 1.0)
    balance = product / float(group.size**2)
    if padding_takes_part:
        balance *= tokens / float(group.size)
    return mtf.reduce_mean(balance)


def balance_of_selection(gates: Gates, probabilities: Tensor) -> Tensor:
    """How uneven the wishes of experts are: 1 if every token is equally wanted.

    Args:
        gates: of the router.
        probabilities: [..., group, experts] float32, of an expert over the tokens, 0 at padding.

    Returns:
        A scalar.
    """
    tokens = gates.group_tokens
    squares = mtf.reduce_mean(
        mtf.reduce_sum(mtf.square(probabilities), reduced_dim=gates.group),
        output_shape=tokens.shape,
    )
    if gates.real is None or gates.counts_padding:
        return mtf.reduce_mean(squares * tokens)
    total = mtf.reduce_sum(squares * tokens * tokens)
    return total / mtf.maximum(mtf.reduce_sum(tokens), 1.0)


def z_loss(gates: Gates) -> Tensor:
    """The mean over tokens of the squared log partition function (Zoph et al. 2022, equation 5).

    Args:
        gates: of the router.

    Returns:
        A scalar.
    """
    square = mtf.square(mtf.reduce_logsumexp(gates.logits, gates.experts))
    total = mtf.reduce_sum(gates.masked(square))
    return total / mtf.maximum(mtf.reduce_sum(gates.group_tokens), 1.0)
