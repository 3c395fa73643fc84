"""The adaptive softmax: rare ids have narrow tables, and are told apart at their positions only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError
from mtf_models.layers.loss import softmax_cross_entropy
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import random_normal
from mtf_models.transformer.context import Context
from mtf_models.transformer.vocab import Vocab
from mtf_models.transformer.vocab_clusters import Cluster, joined, make_clusters

if TYPE_CHECKING:
    from mtf_models.transformer.unitransformer import Unitransformer

_MODULE = "mesh_tensorflow.transformer.adaptive_softmax"
_FACTOR = "length_projection_factor"


@configurable(module=_MODULE)
class AdaptiveSoftmaxVocabEmbedding:
    """Clusters of ids, of which the first one's softmax has a class for each of the others.

    Grave et al., 2017, https://arxiv.org/abs/1609.04309. The probability of an id of a later
    cluster, a tail, is that of its cluster times that of the id there. The logits are
    log-probabilities of all ids, so that it decodes and scores as any other;
    `adaptive_softmax_loss_fn` trains it without computing them.

    Args:
        mesh: where the variables lie.
        vocab: the rows.
        output_dim: d_model.
        variable_dtype: dtypes of the variables.
        name: what their names begin with, see `make_clusters`; `<name>_tails` has a row for each
            tail, as wide as the table of the first cluster.
        clusters: in the order of the ids, each a mapping with "token_count" and "embedding_size";
            and, but for the first, "length_projection_factor", at how many of the positions of a
            sequence its ids are learnt.

    Raises:
        ConfigError: if the clusters do not make up the vocabulary, or there is one alone.
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
        owner = type(self).__name__
        self.vocab = vocab
        self.output_dim = output_dim
        self.dtype = variable_dtype.activation
        self.factors = _factors(owner, clusters)
        self.head, *self.tails = make_clusters(
            owner, mesh, vocab, output_dim, variable_dtype, name, clusters
        )
        shape = Shape([Dimension("tail_clusters", len(self.tails)), self.head.width])
        rows = mtf.get_variable(mesh, f"{name}_tails", shape, variable_dtype, random_normal())
        self._choices = Cluster(
            self.head.dim.size, shape.dims[0], self.head.width, rows, self.head.map
        )

    @property
    def head_dim(self) -> Dimension:
        """The classes of the first softmax: ids, then tails."""
        return Dimension("head_classes", self.head.dim.size + len(self.tails))

    def ids_to_embedding(self, ids: Tensor) -> Tensor:
        """[...] ids to [..., d_model]."""
        clusters = (self.head, *self.tails)
        return mtf.add_n([c.embed(ids, self.output_dim, self.dtype) for c in clusters])

    def hidden_to_logits(self, hidden: Tensor, is_training: bool = False) -> Tensor:
        """[..., d_model] to the log-probabilities [..., vocab]."""
        head = mtf.log_softmax(mtf.to_float(self.head_logits(hidden)), self.head_dim)
        name, count = self.head_dim.name, self.head.dim.size
        first = mtf.slice(head, 0, count, name)
        parts = [mtf.rename_dimension(first, name, self.head.dim.name)]
        for number, tail in enumerate(self.tails):
            chosen = mtf.slice(head, count + number, 1, name)
            chosen = mtf.reshape(chosen, hidden.shape - self.output_dim)
            inside = mtf.log_softmax(mtf.to_float(self.tail_logits(hidden, tail)), tail.dim)
            parts.append(mtf.add(inside, chosen, output_shape=inside.shape))
        return joined(parts, (self.head, *self.tails), self.vocab)

    def head_logits(self, hidden: Tensor) -> Tensor:
        """[..., d_model] to [..., head_classes]."""
        hidden *= self.output_dim.size**-0.5
        parts = [c.logits(hidden, self.output_dim) for c in (self.head, self._choices)]
        same = [
            mtf.rename_dimension(x, c.dim.name, self.head_dim.name)
            for x, c in zip(parts, (self.head, self._choices), strict=True)
        ]
        return mtf.concat(same, self.head_dim.name)

    def tail_logits(self, hidden: Tensor, tail: Cluster) -> Tensor:
        """[..., d_model] to [..., ids] of a tail."""
        return tail.logits(hidden * self.output_dim.size**-0.5, self.output_dim)


@configurable(module=_MODULE)
def adaptive_softmax_loss_fn(
    decoder: Unitransformer,
    context: Context,
    logits: Tensor,
    targets: Tensor,
    output_vocab_dim: Dimension,
) -> Tensor:
    """The cross entropy of an adaptive softmax, to be bound as `Unitransformer.loss_fn`.

    Of a tail, the first positions of each sequence that have an id of it are learnt, so many as its
    "length_projection_factor" says, rounded up, and the rest only as of this tail. In
    training each softmax has the z-loss of `Unitransformer.z_loss`.

    Args:
        decoder: the stack.
        context: of its call.
        logits: not read.
        targets: [batch, length].
        output_vocab_dim: not read.

    Returns:
        A scalar, float32.

    Raises:
        ConfigError: if the stack's vocabulary is another one, or it smooths labels.
    """
    vocab = context.vocab_embedding
    if not isinstance(vocab, AdaptiveSoftmaxVocabEmbedding) or not decoder.tied:
        raise ConfigError(
            "adaptive_softmax_loss_fn is of AdaptiveSoftmaxVocabEmbedding: bind "
            "get_vocab_embedding_cls.cls = @AdaptiveSoftmaxVocabEmbedding and "
            "Unitransformer.shared_embedding_and_softmax_weights = True."
        )
    if decoder.label_smoothing or decoder.ensemble_dims:
        raise ConfigError(
            "adaptive_softmax_loss_fn knows no label smoothing and no ensembles: bind "
            "Unitransformer.label_smoothing = 0 and Unitransformer.ensemble = None."
        )
    hidden, z_loss = context.hidden, decoder.z_loss if context.is_training else 0.0
    losses = softmax_cross_entropy(
        vocab.head_logits(hidden), _head_labels(vocab, targets), vocab.head_dim, z_loss
    )
    weights = decoder.loss_weights(targets, context.is_training)
    total = mtf.reduce_sum(losses * weights)
    for tail, factor in zip(vocab.tails, vocab.factors, strict=True):
        total += _tail_loss(vocab, tail, factor, hidden, targets, weights, z_loss)
    return total / decoder.denominator(targets, context.num_microbatches)


def _factors(owner: str, clusters: Sequence[Mapping[str, Any]]) -> list[float]:
    """Those of the tails."""
    faults = [] if len(clusters) > 1 else [f"there are {len(clusters)}; give at least two"]
    found = [cluster.get(_FACTOR) for cluster in clusters[1:]]
    faults += [
        f"cluster {i} has the {_FACTOR} {factor!r}; give a number above 0, at most 1"
        for i, factor in enumerate(found, start=1)
        if not isinstance(factor, int | float) or not 0 < factor <= 1
    ]
    if faults:
        raise ConfigError(f"{owner}.clusters: {'; '.join(faults)}.")
    return found


def _head_labels(vocab: AdaptiveSoftmaxVocabEmbedding, targets: Tensor) -> Tensor:
    """The classes of targets in the first softmax."""
    labels = targets
    for number, tail in enumerate(vocab.tails):
        label = vocab.head.dim.size + number
        labels = mtf.where(_in(tail, targets), label, labels, output_shape=targets.shape)
    return labels


def _in(tail: Cluster, targets: Tensor) -> Tensor:
    """Whether targets are ids of a tail."""
    return mtf.logical_and(
        mtf.greater_equal(targets, tail.begin), mtf.less(targets, tail.begin + tail.dim.size)
    )


def _tail_loss(
    vocab: AdaptiveSoftmaxVocabEmbedding,
    tail: Cluster,
    factor: float,
    hidden: Tensor,
    targets: Tensor,
    weights: Tensor,
    z_loss: float,
) -> Tensor:
    """The sum of the losses at the first positions with ids of a tail."""
    length = targets.shape.get_dim_by_name("length")
    chosen = Dimension("chosen", math.ceil(length.size * factor))
    counts = mtf.to_float(_in(tail, targets)) * weights
    counts, places = mtf.top_k(counts, length, chosen)
    seen = mtf.gather(hidden, places, length)
    ids = mtf.gather(targets, places, length) - tail.begin
    losses = softmax_cross_entropy(vocab.tail_logits(seen, tail), ids, tail.dim, z_loss)
    return mtf.reduce_sum(losses * counts)
