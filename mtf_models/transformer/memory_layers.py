"""Large key-value memories of which each position reads a few slots."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.dense import dense
from mtf_models.layers.normalization import layer_norm
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import random_normal, random_uniform
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer


@configurable(module="mesh_tensorflow.transformer.memory_layers")
class ProductKeyValueMemory(TransformerLayer):
    """Attention to the `knn` nearest of n_keys² slots (Lample et al. 2019, section 3).

    A slot's key is a pair of half keys, so that the nearest slots are found among the pairs of
    the nearest halves.

    Args:
        key_size: the width of a key; a half has half of it.
        n_keys: half keys for each half.
        n_heads: how many queries a position makes, each with keys of its own.
        knn: how many slots a query reads.

    Raises:
        ConfigError: if a number is not positive, `key_size` is odd or `knn` is over `n_keys`.
    """

    def __init__(
        self,
        key_size: int = REQUIRED,
        n_keys: int = REQUIRED,
        n_heads: int = REQUIRED,
        knn: int = REQUIRED,
    ) -> None:
        name = "ProductKeyValueMemory"
        require_positive(name, key_size=key_size, n_keys=n_keys, n_heads=n_heads, knn=knn)
        if key_size % 2 or knn > n_keys:
            raise ConfigError(
                f"{name} has key_size = {key_size}, knn = {knn} and n_keys = {n_keys}; key_size "
                "must be even, and knn at most n_keys."
            )
        self.heads = Dimension("heads", n_heads)
        self.halves = Dimension("key_halves", 2)
        self.keys = Dimension("n_keys", n_keys)
        self.half_key = Dimension("half_key", key_size // 2)
        self.slots = Dimension("memory_slots", n_keys**2)
        self.knn = Dimension("knn", knn)

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        scores, slots = self.nearest(self._half_scores(context, x))
        weights = mtf.cast(mtf.softmax(mtf.to_float(scores), self.knn), x.dtype)
        values = mtf.get_variable(
            x.mesh,
            "values",
            Shape([self.slots, context.d_model]),
            context.variable_dtype,
            random_normal(context.d_model.size**-0.5),
        )
        return mtf.einsum([weights, mtf.gather(values, slots, self.slots)], x.shape)

    def nearest(self, half_scores: Tensor) -> tuple[Tensor, Tensor]:
        """The slots with the highest scores, which are sums of the scores of their halves.

        Args:
            half_scores: [..., heads, key_halves, n_keys].

        Returns:
            Scores and numbers of the slots, [..., heads, knn], the highest first.
        """
        scores, keys = mtf.top_k(half_scores, self.keys, self.knn)
        rows, columns = (self._half(scores, i) for i in range(2))
        other = Dimension("knn_columns", self.knn.size)
        columns = mtf.rename_dimension(columns, self.knn.name, other.name)
        shape = rows.shape + other
        pairs = Dimension("knn_pairs", self.knn.size**2)
        sums = mtf.add(rows, columns, output_shape=shape)
        flat = mtf.reshape(sums, rows.shape - self.knn + pairs)
        best, pair = mtf.top_k(flat, pairs, self.knn)
        row = self._at(self._half(keys, 0), pair // self.knn.size)
        column = self._at(self._half(keys, 1), pair % self.knn.size)
        return best, row * self.keys.size + column

    def _half_scores(self, context: Context, x: Tensor) -> Tensor:
        dtype = context.variable_dtype
        query_dims = [self.heads, self.halves, self.half_key]
        query = dense(x, query_dims, [context.d_model], variable_dtype=dtype, name="query")
        query = layer_norm(query, self.half_key, dtype)
        keys = mtf.get_variable(
            x.mesh,
            "keys",
            Shape([self.heads, self.halves, self.keys, self.half_key]),
            dtype,
            random_uniform(self.half_key.size**-0.5),
        )
        return mtf.einsum([query, keys], query.shape - self.half_key + self.keys)

    def _half(self, x: Tensor, index: int) -> Tensor:
        return mtf.unstack(x, self.halves)[index]

    def _at(self, x: Tensor, places: Tensor) -> Tensor:
        """The entries of `x` [..., knn] at `places` [..., knn]."""
        source = Dimension("knn_source", self.knn.size)
        return mtf.gather(mtf.rename_dimension(x, self.knn.name, source.name), places, source)
