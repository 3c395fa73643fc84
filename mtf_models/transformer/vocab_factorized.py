"""A vocabulary embedding in two factors."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import require_positive
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import random_normal
from mtf_models.transformer.vocab import Vocab


@configurable(module="mesh_tensorflow.transformer.vocab_embeddings")
class FactorizedVocabEmbedding:
    """A narrow table and a map to d_model (Lan et al. 2020, section 3.1).

    The variables are `<name>1` [vocab, inner] and `<name>2` [inner, d_model].

    Args:
        mesh: where they lie.
        vocab: the rows.
        output_dim: d_model.
        variable_dtype: dtypes of the variables.
        name: what their names begin with.
        inner_dimension_size: the width of the table.
    """

    def __init__(
        self,
        mesh: Mesh,
        vocab: Vocab,
        output_dim: Dimension,
        variable_dtype: VariableDType,
        name: str,
        inner_dimension_size: int = REQUIRED,
    ) -> None:
        require_positive(type(self).__name__, inner_dimension_size=inner_dimension_size)
        self.vocab = vocab
        self.output_dim = output_dim
        self.dtype = variable_dtype.activation
        self.inner = Dimension("inner_vocab", inner_dimension_size)
        self.table = mtf.get_variable(
            mesh,
            f"{name}1",
            Shape([vocab.dim, self.inner]),
            variable_dtype,
            vocab.pad_initializer(random_normal(), axis=-2),
            activation_dtype=variable_dtype.slice,
        )
        stddev = inner_dimension_size**-0.5
        self.map = mtf.get_variable(
            mesh,
            f"{name}2",
            Shape([self.inner, output_dim]),
            variable_dtype,
            random_normal(stddev),
        )

    def ids_to_embedding(self, ids: Tensor) -> Tensor:
        """[...] ids to [..., d_model]."""
        rows = mtf.cast(mtf.gather(self.table, ids, self.vocab.dim), self.dtype)
        return mtf.einsum([rows, self.map], rows.shape - self.inner + self.output_dim)

    def hidden_to_logits(self, hidden: Tensor, is_training: bool = False) -> Tensor:
        """[..., d_model] to [..., vocab] by the transposed factors."""
        hidden *= self.output_dim.size**-0.5
        narrow = mtf.einsum([hidden, self.map], hidden.shape - self.output_dim + self.inner)
        table = mtf.cast(self.table, hidden.dtype)
        return mtf.einsum([narrow, table], narrow.shape - self.inner + self.vocab.dim)
