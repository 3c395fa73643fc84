"""Mixtape: a mixture of logits for frequent ids, and of vectors for all others."""

from __future__ import annotations

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import Initializer, random_normal, zeros
from mtf_models.transformer.vocab import Vocab

_CONTEXTS = Dimension("mixtape_contexts", 4)
_GATES = Dimension("mixtape_gates", 3)


@configurable(module="mesh_tensorflow.transformer.vocab_embeddings")
class Mixtape:
    """Four context vectors, gated by a tree of sigmoids (Yang et al. 2019, sections 2 and 3).

    The frequent ids, which come first, have gates of their own; all others share gates.

    Args:
        mesh: where the variables lie.
        vocab: the rows.
        output_dim: d_model.
        variable_dtype: dtypes of the variables.
        name: what their names begin with.
        extra_ids: how many ids at the end of the vocabulary count as frequent too.
        dropout_rate: the part of the context vectors that is dropped.
        gate_embedding_size: the width of what gates are computed from.
        frequent_token_fraction: the part of the ids, without the extra ones, that is frequent.
        noise_std_dev: of normal noise that is added to the gates before the sigmoids.

    Raises:
        ConfigError: if no id is frequent, or more than all are.
    """

    def __init__(
        self,
        mesh: Mesh,
        vocab: Vocab,
        output_dim: Dimension,
        variable_dtype: VariableDType,
        name: str,
        extra_ids: int = 0,
        dropout_rate: float = 0.0,
        gate_embedding_size: int = REQUIRED,
        frequent_token_fraction: float = 0.1,
        noise_std_dev: float = 0.0,
    ) -> None:
        require_positive(type(self).__name__, gate_embedding_size=gate_embedding_size)
        self.vocab = vocab
        self.output_dim = output_dim
        self.variable_dtype = variable_dtype
        self.dropout_rate = dropout_rate
        self.noise_std_dev = noise_std_dev
        self.frequent_ids = _frequent(vocab, extra_ids, frequent_token_fraction)
        self.frequent = Dimension("frequent_ids", len(self.frequent_ids))
        self.gate_dim = Dimension("gate_embedding", gate_embedding_size)
        self.context_dim = Dimension("d_context", output_dim.size)
        stddev = output_dim.size**-0.5
        self.table = self._variable(
            mesh,
            f"{name}_embedding_weights",
            [vocab.dim, output_dim],
            vocab.pad_initializer(random_normal(), axis=-2),
        )
        context = [_CONTEXTS, output_dim, self.context_dim]
        self.context = self._variable(
            mesh, f"{name}_context_weights", context, random_normal(stddev)
        )
        prior = [_GATES, self.gate_dim, output_dim]
        self.prior = self._variable(mesh, f"{name}_prior_weights", prior, random_normal(stddev))
        self.prior_vocab = self._variable(
            mesh,
            f"{name}_prior_vocab_vector",
            [self.frequent, self.gate_dim],
            random_normal(gate_embedding_size**-0.5),
        )
        self.prior_gates = self._variable(
            mesh, f"{name}_prior_gates_vector", [_GATES, output_dim], random_normal(stddev)
        )
        self.prior_bias = self._variable(
            mesh, f"{name}_prior_bias", [self.frequent, _GATES], zeros()
        )

    def ids_to_embedding(self, ids: Tensor) -> Tensor:
        """[...] ids to [..., d_model]."""
        rows = mtf.gather(self.table, ids, self.vocab.dim)
        return mtf.cast(rows, self.variable_dtype.activation)

    def hidden_to_logits(self, hidden: Tensor, is_training: bool = False) -> Tensor:
        """[..., d_model] to [..., vocab]."""
        hidden *= self.output_dim.size**-0.5
        batch = hidden.shape - self.output_dim
        vectors = [_CONTEXTS, self.context_dim]
        contexts = mtf.tanh(mtf.einsum([hidden, self.context], batch + vectors))
        contexts = mtf.dropout(contexts, is_training, rate=self.dropout_rate)
        table = mtf.rename_dimension(self.table, self.output_dim.name, self.context_dim.name)
        table = mtf.cast(table, hidden.dtype)
        shared, own = self._gates(hidden, is_training)
        mixed = mtf.einsum([contexts, _priors(shared)], batch + self.context_dim)
        rare = mtf.einsum([mixed, table], batch + self.vocab.dim)
        ids = mtf.import_tf_tensor(hidden.mesh, self.frequent_ids, Shape([self.frequent]))
        rows = mtf.gather(table, ids, self.vocab.dim)
        each = mtf.einsum([contexts, rows], batch + [self.frequent, _CONTEXTS])
        often = mtf.einsum([each, _priors(own)], batch + self.frequent)
        return self._placed(often, rare)

    def _gates(self, hidden: Tensor, is_training: bool) -> tuple[Tensor, Tensor]:
        """What all rare ids share, [..., gates], and of each frequent one, [..., frequent, gates].

        Before the sigmoids.
        """
        batch = hidden.shape - self.output_dim
        shared = mtf.einsum([hidden, self.prior_gates], batch + _GATES)
        inner = mtf.tanh(mtf.einsum([hidden, self.prior], batch + [_GATES, self.gate_dim]))
        shape = batch + [self.frequent, _GATES]
        own = mtf.einsum([inner, self.prior_vocab], shape)
        own = mtf.add(own, shared, output_shape=shape)
        own = mtf.add(own, self.prior_bias, output_shape=shape)
        return self._noisy(shared, is_training), self._noisy(own, is_training)

    def _noisy(self, x: Tensor, is_training: bool) -> Tensor:
        if not is_training or not self.noise_std_dev:
            return x
        return x + mtf.cast(mtf.random_normal(x.mesh, x.shape, stddev=self.noise_std_dev), x.dtype)

    def _placed(self, often: Tensor, rare: Tensor) -> Tensor:
        """The logits of frequent ids in their places among all others."""
        place = np.full([self.vocab.dim.size], -1, np.int32)
        place[self.frequent_ids] = np.arange(self.frequent.size)
        places = mtf.import_tf_tensor(rare.mesh, place, Shape([self.vocab.dim]))
        spread = mtf.gather(often, places, self.frequent)
        is_frequent = mtf.greater_equal(places, 0)
        return mtf.where(is_frequent, spread, rare, output_shape=rare.shape)

    def _variable(
        self, mesh: Mesh, name: str, dims: list[Dimension], initializer: Initializer
    ) -> Tensor:
        return mtf.get_variable(mesh, name, Shape(dims), self.variable_dtype, initializer)


def _priors(gates: Tensor) -> Tensor:
    """[..., gates] to [..., contexts]: a tree of three sigmoids has four leaves."""
    g = mtf.sigmoid(gates)
    first, left, right = mtf.unstack(g, _GATES)
    leaves = [
        first * left,
        first * (1.0 - left),
        (1.0 - first) * right,
        (1.0 - first) * (1.0 - right),
    ]
    return mtf.stack(leaves, _CONTEXTS.name, axis=leaves[0].shape.ndims)


def _frequent(vocab: Vocab, extra_ids: int, fraction: float) -> np.ndarray:
    first = int(fraction * (vocab.real - extra_ids))
    if not 0 < first + extra_ids <= vocab.real or first < 0:
        raise ConfigError(
            f"Mixtape.frequent_token_fraction is {fraction} and extra_ids {extra_ids} of "
            f"{vocab.real} ids, which makes {first + extra_ids} frequent ones: let there be one at "
            "least, and at most all."
        )
    ids = [*range(first), *range(vocab.real - extra_ids, vocab.real)]
    return np.asarray(ids, np.int32)
