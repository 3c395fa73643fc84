"""The embedding of ids, positions and types at the bottom of a stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mtf_models.mesh as mtf
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh, Tensor, VariableDType
from mtf_models.transformer.vocab import VocabEmbedding, get_vocab_embedding_cls

if TYPE_CHECKING:
    from mtf_models.transformer.unitransformer import Unitransformer


@dataclass(frozen=True)
class Embedding:
    """Tables for ids, positions and types of tokens.

    Attributes:
        ids: the vocabulary's.
        positions: [length, d_model], or None.
        token_types: [token_type, d_model], or None.
    """

    ids: VocabEmbedding
    positions: Tensor | None
    token_types: Tensor | None = None

    @classmethod
    def make(
        cls,
        stack: Unitransformer,
        mesh: Mesh,
        variable_dtype: VariableDType,
        positions: bool = True,
    ) -> Embedding:
        """The tables that a stack asks for, in the current scope.

        Args:
            stack: says which vocabulary, width and positions.
            mesh: where they lie.
            variable_dtype: dtypes of the variables.
            positions: whether positions belong to it too.
        """
        vocab = stack.vocab(stack.input_vocab_size)
        ids = get_vocab_embedding_cls()(mesh, vocab, stack.d_model, variable_dtype, "embedding")
        table = stack.positions(mesh, variable_dtype) if positions else None
        return cls(ids, table, stack.token_types(mesh, variable_dtype))

    def embed(
        self, ids: Tensor, position: Tensor, longest: int, token_type: Tensor | None = None
    ) -> Tensor:
        """[batch, length] ids to [batch, length, d_model].

        Args:
            ids: what is read.
            position: of each id, [length] or [batch, length].
            longest: how many positions there can be; more than `length` when decoding.
            token_type: of each id; None for type 0.

        Raises:
            ConfigError: if there are fewer positional embeddings.
        """
        x = self.ids.ids_to_embedding(ids)
        if self.token_types is not None:
            types = mtf.zeros_like(ids) if token_type is None else token_type
            x += mtf.gather(self.token_types, types, self.token_types.shape.dims[-2])
        if self.positions is None:
            return x
        table_length = self.positions.shape.dims[-2]
        if longest > table_length.size:
            raise ConfigError(
                f"Sequences of {longest} positions, and positional embeddings for "
                f"{table_length.size}: bind Unitransformer.max_length to the longest sequence."
            )
        rows = mtf.gather(self.positions, position, table_length)
        return mtf.add(x, rows, output_shape=x.shape)
