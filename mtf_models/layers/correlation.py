"""How the entries of a dimension vary together."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.mesh import Dimension, Tensor


def corr(x: Tensor, dim: Dimension, epsilon: float = 1e-20) -> Tensor:
    """Pearson's correlation of each two entries along `dim`, over all other dimensions.

    Args:
        x: has `dim` and at least one other dimension.
        dim: the variables.
        epsilon: keeps the root away from zero.

    Returns:
        [dim_1, dim_2], `dim` under two names.

    Raises:
        ShapeError: if `x` lacks `dim`, or has no other dimension.
    """
    samples = [d for d in x.shape if d != dim]
    refuse(
        f"the correlation of {x.shape} along {dim}",
        [
            f"the tensor has no {dim}" if dim not in x.shape else None,
            "there are no samples" if not samples else None,
        ],
    )
    centred = x - mtf.reduce_mean(x, reduced_dim=samples)
    norm = mtf.reduce_sum(mtf.square(centred), output_shape=[dim])
    normal = centred * mtf.rsqrt(norm + epsilon)
    first = mtf.rename_dimension(normal, dim.name, f"{dim.name}_1")
    second = mtf.rename_dimension(normal, dim.name, f"{dim.name}_2")
    return mtf.einsum([first, second], reduced_dims=samples)
