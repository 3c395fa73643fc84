"""Losses of a few positions at a time, so that not all logits are in memory at once."""

from __future__ import annotations

import math

from mtf_models.configurable import configurable
from mtf_models.errors import require_positive
from mtf_models.mesh import Dimension, Tensor


@configurable(module="mtf_models.transformer.loss_blocks")
def positions_at_once(
    logits: Tensor,
    length: Dimension,
    most_whole: int = 2**28,
    most_in_block: int = 2**25,
) -> int | None:
    """Of how many positions the logits are computed at a time in training; None for all.

    Blocks cost the product that gives the logits once more.

    Args:
        logits: [..., length, vocab], of all positions.
        length: of the targets; a block is divided over the mesh like all of them.
        most_whole: up to so many logits on a device, all at once.
        most_in_block: how many a block has there else, at the most, if that is a position.
    """
    require_positive("positions_at_once", most_whole=most_whole, most_in_block=most_in_block)
    mesh = logits.mesh
    on_device = logits.size // math.prod(map(mesh.splits, logits.shape))
    if on_device <= most_whole:
        return None
    parts = mesh.splits(length)
    size = max(most_in_block * length.size // on_device // parts, 1) * parts
    return size if size < length.size else None
