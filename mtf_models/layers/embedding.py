"""Tables of vectors for the entries of a vocabulary."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import Initializer, random_normal


def embedding_weights(
    mesh: Mesh,
    vocab_dim: Dimension,
    output_dim: Dimension,
    variable_dtype: VariableDType | None = None,
    name: str = "embedding",
    ensemble_dim: Dimension | None = None,
    initializer: Initializer | None = None,
) -> Tensor:
    """The variable `name` [(ensemble,) vocab, output].

    Args:
        mesh: where it lives.
        vocab_dim: the entries.
        output_dim: the width of a vector.
        variable_dtype: its dtypes, by default float32.
        name: the variable.
        ensemble_dim: one table for each member.
        initializer: by default normal numbers of variance 1.
    """
    dims = [d for d in (ensemble_dim, vocab_dim, output_dim) if d is not None]
    dtype = variable_dtype or VariableDType()
    return mtf.get_variable(mesh, name, Shape(dims), dtype, initializer or random_normal())


def embedding(
    indices: Tensor,
    vocab_dim: Dimension,
    output_dim: Dimension,
    variable_dtype: VariableDType | None = None,
    name: str = "embedding",
) -> Tensor:
    """The vectors of indices, from the variable `name`; zeros for indices out of range.

    Args:
        indices: integers.
        vocab_dim: the entries.
        output_dim: the width of a vector; the last dimension of the result.
        variable_dtype: as for `embedding_weights`.
        name: the variable.
    """
    weights = embedding_weights(indices.mesh, vocab_dim, output_dim, variable_dtype, name)
    return mtf.gather(weights, indices, vocab_dim)
