"""The vocabulary at both ends of a model: embeddings of ids, and logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.layers.initialization import padded
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import (
    Initializer,
    random_normal,
    truncated_normal,
    unit_scaling_convention,
)

_MODULE = "mesh_tensorflow.transformer.transformer"


@dataclass(frozen=True)
class Vocab:
    """The rows of a vocabulary on a mesh.

    Attributes:
        dim: the dimension `vocab`, as large as the table.
        classes: the entries that take part in logits and loss; those beyond are masked.
        real: the entries that a tokenizer knows.
    """

    dim: Dimension
    classes: int
    real: int

    @classmethod
    def of_size(cls, real: int, divisor: int, pad_multiple: int = 1) -> Vocab:
        """Rounds a vocabulary up.

        Args:
            real: the entries that a tokenizer knows.
            divisor: classes are rounded up to a multiple, as in the original.
            pad_multiple: the table is rounded up to a multiple of this too, beyond its classes.
        """
        classes = -(-real // divisor) * divisor
        step = math.lcm(divisor, pad_multiple)
        return cls(Dimension("vocab", -(-classes // step) * step), classes, real)

    def mask_padding(
        self, logits: Tensor, first: int | None = None, value: float = -math.inf
    ) -> Tensor:
        """Logits with `value` from entry `first` on; by default -inf beyond the config."""
        first = self.classes if first is None else first
        if first >= self.dim.size:
            return logits
        position = mtf.mtf_range(logits.mesh, self.dim)
        beyond = mtf.greater_equal(position, first)
        return mtf.where(beyond, value, logits, output_shape=logits.shape)

    def pad_initializer(self, initializer: Initializer, axis: int) -> Initializer:
        """Initial values that do not change with the padding beyond the config."""
        return (
            padded(initializer, axis, self.classes) if self.dim.size > self.classes else initializer
        )


@configurable(module=_MODULE)
class VocabEmbedding:
    """One table for ids and, when tied, for logits.

    Args:
        mesh: where it lies.
        vocab: its rows.
        output_dim: d_model.
        variable_dtype: dtypes of the variable.
        name: of the variable.
        scale_variable_like_classifier_weights: whether the table is initialised like a classifier
            (standard deviation d_model^-½) and ids are scaled up, instead of logits down. The unit
            scaling convention does neither: it is the default then.
        scale_logits: whether logits are scaled by d_model^-½, where ids are not scaled up.
    """

    def __init__(
        self,
        mesh: Mesh,
        vocab: Vocab,
        output_dim: Dimension,
        variable_dtype: VariableDType,
        name: str,
        scale_variable_like_classifier_weights: bool = False,
        scale_logits: bool = True,
    ) -> None:
        self.vocab = vocab
        self.output_dim = output_dim
        self.dtype = variable_dtype.activation
        self._like_classifier = (
            scale_variable_like_classifier_weights and not unit_scaling_convention()
        )
        self._scale_logits = scale_logits and not self._like_classifier
        stddev = output_dim.size**-0.5 if self._like_classifier else 1.0
        # The table stays wide: rows are gathered first and cast then.
        self.table = mtf.get_variable(
            mesh,
            name,
            Shape([vocab.dim, output_dim]),
            variable_dtype,
            vocab.pad_initializer(random_normal(stddev), axis=-2),
            activation_dtype=variable_dtype.slice,
        )

    def ids_to_embedding(self, ids: Tensor) -> Tensor:
        """[...] ids to [..., d_model]."""
        stacked = [d for d in self.table.shape.dims[:-2] if d not in ids.shape]
        shape = Shape([*stacked, *ids.shape, self.output_dim])
        rows = mtf.cast(mtf.gather(self.table, ids, self.vocab.dim, shape), self.dtype)
        return rows * self.output_dim.size**0.5 if self._like_classifier else rows

    def hidden_to_logits(self, hidden: Tensor, is_training: bool = False) -> Tensor:
        """[..., d_model] to [..., vocab] by the transposed table."""
        if self._scale_logits:
            hidden *= self.output_dim.size**-0.5
        table = mtf.cast(self.table, hidden.dtype)
        return mtf.einsum([hidden, table], hidden.shape - self.output_dim + self.vocab.dim)


@configurable(module=_MODULE)
def get_vocab_embedding_cls(cls: Callable[..., VocabEmbedding] = VocabEmbedding) -> Callable:
    """The class of vocabulary embeddings, for gin to bind."""
    return cls


def untied_logits(
    hidden: Tensor, vocab: Vocab, d_model: Dimension, variable_dtype: VariableDType
) -> Tensor:
    """[..., d_model] to [..., vocab] by `logits/kernel`."""
    with mtf.variable_scope("logits"):
        stddev = d_model.size**-0.5
        unit = unit_scaling_convention()
        initializer = truncated_normal(1.0 if unit else stddev)
        kernel = mtf.get_variable(
            hidden.mesh,
            "kernel",
            Shape([d_model, vocab.dim]),
            variable_dtype,
            vocab.pad_initializer(initializer, axis=-1),
        )
    if unit:
        hidden *= stddev
    return mtf.einsum([hidden, kernel], hidden.shape - d_model + vocab.dim)
