"""Adaptive vocabulary embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.mesh import Dimension, Mesh, Tensor, VariableDType
from mtf_models.transformer.vocab import Vocab
from mtf_models.transformer.vocab_clusters import joined, make_clusters


@configurable(module="mesh_tensorflow.transformer.vocab_embeddings")
class AdaptiveVocabEmbedding:
    """Narrower embeddings for rarer ids (Baevski and Auli 2019, section 3).

    Args:
        mesh: where the variables lie.
        vocab: the rows.
        output_dim: d_model.
        variable_dtype: dtypes of the variables.
        name: what their names begin with, see `make_clusters`.
        clusters: in the order of the ids, each a mapping with "token_count" and "embedding_size".

    Raises:
        ConfigError: if the clusters do not make up the vocabulary.
    """

    def __init__(
        self,
        mesh: Mesh,
        vocab: Vocab,
        output_dim: Dimension,
        variable_dtype: VariableDType,
        name: str,
        clusters: Sequence[Mapping[str, Any]] = REQUIRED,
    ) -> None:
        self.vocab = vocab
        self.output_dim = output_dim
        self.dtype = variable_dtype.activation
        self.clusters = make_clusters(
            type(self).__name__, mesh, vocab, output_dim, variable_dtype, name, clusters
        )

    def ids_to_embedding(self, ids: Tensor) -> Tensor:
        """[...] ids to [..., d_model]."""
        return mtf.add_n([c.embed(ids, self.output_dim, self.dtype) for c in self.clusters])

    def hidden_to_logits(self, hidden: Tensor, is_training: bool = False) -> Tensor:
        """[..., d_model] to [..., vocab] by the transposed tables."""
        hidden *= self.output_dim.size**-0.5
        parts = [c.logits(hidden, self.output_dim) for c in self.clusters]
        return joined(parts, self.clusters, self.vocab)
