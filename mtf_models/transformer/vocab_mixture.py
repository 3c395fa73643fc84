"""A mixture of softmaxes over the vocabulary."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import require_positive
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import random_normal
from mtf_models.transformer.vocab import Vocab


@configurable(module="mesh_tensorflow.transformer.vocab_embeddings")
class MixtureOfSoftmaxes:
    """Logits that are the log of a mixture of softmaxes (Yang et al. 2018, section 2.4).

    Each softmax is of tanh(h W_k) times the table; a softmax of h U mixes them. The variables are
    `<name>_embedding_weights`, `<name>_context_weights` (W) and `<name>_mixture_weights` (U).

    Args:
        mesh: where they lie.
        vocab: the rows.
        output_dim: d_model.
        variable_dtype: dtypes of the variables.
        name: what their names begin with.
        num_softmaxes: how many.
    """

    def __init__(
        self,
        mesh: Mesh,
        vocab: Vocab,
        output_dim: Dimension,
        variable_dtype: VariableDType,
        name: str,
        num_softmaxes: int = REQUIRED,
    ) -> None:
        require_positive(type(self).__name__, num_softmaxes=num_softmaxes)
        self.vocab = vocab
        self.output_dim = output_dim
        self.dtype = variable_dtype.activation
        self.softmaxes = Dimension("softmaxes", num_softmaxes)
        self.context_dim = Dimension("d_context", output_dim.size)
        stddev = output_dim.size**-0.5
        self.table = mtf.get_variable(
            mesh,
            f"{name}_embedding_weights",
            Shape([vocab.dim, output_dim]),
            variable_dtype,
            vocab.pad_initializer(random_normal(), axis=-2),
            activation_dtype=variable_dtype.slice,
        )
        self.mixture = mtf.get_variable(
            mesh,
            f"{name}_mixture_weights",
            Shape([self.softmaxes, output_dim]),
            variable_dtype,
            random_normal(stddev),
        )
        self.context = mtf.get_variable(
            mesh,
            f"{name}_context_weights",
            Shape([self.softmaxes, output_dim, self.context_dim]),
            variable_dtype,
            random_normal(stddev),
        )

    def ids_to_embedding(self, ids: Tensor) -> Tensor:
        """[...] ids to [..., d_model]."""
        return mtf.cast(mtf.gather(self.table, ids, self.vocab.dim), self.dtype)

    def hidden_to_logits(self, hidden: Tensor, is_training: bool = False) -> Tensor:
        """[..., d_model] to [..., vocab], log-probabilities in float32."""
        hidden *= self.output_dim.size**-0.5
        batch = hidden.shape - self.output_dim
        mixed = mtf.to_float(mtf.einsum([hidden, self.mixture], batch + self.softmaxes))
        priors = mtf.log_softmax(mixed, self.softmaxes)
        context = mtf.einsum([hidden, self.context], batch + [self.softmaxes, self.context_dim])
        table = mtf.rename_dimension(self.table, self.output_dim.name, self.context_dim.name)
        logits = mtf.einsum(
            [mtf.tanh(context), mtf.cast(table, hidden.dtype)],
            batch + [self.softmaxes, self.vocab.dim],
        )
        # What is padded beyond the classes has no part of any softmax.
        logits = self.vocab.mask_padding(mtf.to_float(logits))
        each = mtf.log_softmax(logits, self.vocab.dim)
        # A sum over nothing but -inf has no gradient; the model masks these entries again.
        each = self.vocab.mask_padding(each, value=0.0)
        return mtf.reduce_logsumexp(mtf.add(each, priors, output_shape=each.shape), self.softmaxes)
