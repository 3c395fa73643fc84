"""Clusters of a vocabulary, from frequent to rare ids, with tables of their own widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import random_normal
from mtf_models.transformer.vocab import Vocab


@dataclass(frozen=True)
class Cluster:
    """A run of ids.

    Attributes:
        begin: the first id.
        dim: the ids; whole, whatever the layout of the vocabulary is.
        width: of the table.
        table: [ids, width].
        map: [width, d_model], or None where the table is as wide as d_model.
    """

    begin: int
    dim: Dimension
    width: Dimension
    table: Tensor
    map: Tensor | None

    def embed(self, ids: Tensor, output_dim: Dimension, dtype: Any) -> Tensor:
        """[...] ids to [..., d_model], zero for ids of other clusters."""
        rows = mtf.cast(mtf.gather(self.table, ids - self.begin, self.dim), dtype)
        if self.map is None:
            return mtf.rename_dimension(rows, self.width.name, output_dim.name)
        return mtf.einsum([rows, self.map], rows.shape - self.width + output_dim)

    def logits(self, hidden: Tensor, output_dim: Dimension) -> Tensor:
        """[..., d_model] to [..., ids]."""
        if self.map is None:
            narrow = mtf.rename_dimension(hidden, output_dim.name, self.width.name)
        else:
            narrow = mtf.einsum([hidden, self.map], hidden.shape - output_dim + self.width)
        table = mtf.cast(self.table, hidden.dtype)
        return mtf.einsum([narrow, table], narrow.shape - self.width + self.dim)


def make_clusters(
    owner: str,
    mesh: Mesh,
    vocab: Vocab,
    output_dim: Dimension,
    variable_dtype: VariableDType,
    name: str,
    clusters: Sequence[Mapping[str, Any]],
) -> list[Cluster]:
    """The variables `<name>_<i>` and `<name>_<i>_projection` of each cluster.

    Args:
        owner: whose they are, for messages.
        mesh: where they lie.
        vocab: the rows.
        output_dim: d_model.
        variable_dtype: dtypes of the variables.
        name: what their names begin with.
        clusters: each with "token_count" and "embedding_size".

    Raises:
        ConfigError: if a cluster lacks these, or the counts are not those of the vocabulary.
    """
    faults = [
        f"cluster {i} has no {key!r}"
        for i, cluster in enumerate(clusters)
        for key in ("token_count", "embedding_size")
        if key not in cluster
    ]
    total = sum(cluster.get("token_count", 0) for cluster in clusters)
    if not faults and total != vocab.classes:
        faults.append(
            f"the token_counts of the clusters add up to {total}, and the vocabulary, padded to "
            f"vocab_divisor, has {vocab.classes} ids: make them equal"
        )
    if faults:
        raise ConfigError(f"{owner}.clusters: {'; '.join(faults)}.")
    made, begin = [], 0
    for i, cluster in enumerate(clusters):
        dim = Dimension(f"cluster_{i}", cluster["token_count"])
        width = Dimension("cluster_width", cluster["embedding_size"])
        table = mtf.get_variable(
            mesh,
            f"{name}_{i}",
            Shape([dim, width]),
            variable_dtype,
            random_normal(),
            activation_dtype=variable_dtype.slice,
        )
        projection = None
        if width.size != output_dim.size:
            shape = Shape([width, output_dim])
            initializer = random_normal(width.size**-0.5)
            projection = mtf.get_variable(
                mesh, f"{name}_{i}_projection", shape, variable_dtype, initializer
            )
        made.append(Cluster(begin, dim, width, table, projection))
        begin += dim.size
    return made


def joined(parts: Sequence[Tensor], clusters: Sequence[Cluster], vocab: Vocab) -> Tensor:
    """[..., ids] of each cluster to [..., vocab]; zeros in the rows beyond the classes."""
    same = [
        mtf.rename_dimension(x, c.dim.name, "cluster_ids")
        for x, c in zip(parts, clusters, strict=True)
    ]
    whole = mtf.concat(same, "cluster_ids")
    if vocab.dim.size > vocab.classes:
        whole = mtf.pad(whole, [0, vocab.dim.size - vocab.classes], "cluster_ids")
    return mtf.rename_dimension(whole, "cluster_ids", vocab.dim.name)
