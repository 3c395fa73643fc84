"""Losses over a named vocabulary dimension."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.errors import refuse
from mtf_models.mesh import Dimension, Tensor


def softmax_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    vocab_dim: Dimension,
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    classes: int | None = None,
) -> Tensor:
    """-Σ t log softmax(logits) + z_loss (log Z)², with the gradient written out.

    The target distribution t gives 1 - label_smoothing to the target and spreads the rest over all
    classes. A target out of range has no entry of its own. Computed in float32.

    Args:
        logits: [..., vocab].
        targets: integers, the dimensions of `logits` less `vocab_dim`.
        vocab_dim: the classes.
        z_loss: weight of the squared log of the partition function.
        label_smoothing: the part of t that is spread.
        classes: how many of the entries are classes; those beyond have logits of -inf.

    Returns:
        float32, the dimensions of `targets`.
    """
    classes = classes or vocab_dim.size
    terms = _Terms(vocab_dim, z_loss, label_smoothing, classes)
    saved: dict[str, Tensor] = {}

    def cross_entropy(logits: Tensor) -> Tensor:
        loss, saved["log_z"] = mtf.fused(("loss", terms), terms.loss, [logits, targets])
        return loss

    def gradient(logits: Tensor, _: Tensor, dy: Tensor) -> list[Tensor]:
        inputs = [logits, targets, saved["log_z"], dy]
        return mtf.fused(("gradient", terms), terms.gradient, inputs)

    return mtf.custom_gradient(cross_entropy, gradient, [logits])


def soft_cross_entropy(
    logits: Tensor,
    target_logits: Tensor,
    vocab_dim: Dimension,
    temperature: float = 1.0,
    z_loss: float = 0.0,
    classes: int | None = None,
) -> Tensor:
    """-Σ t log softmax(logits / T) + z_loss (log Z)², t = softmax(target_logits / T).

    Computed in float32.

    Args:
        logits: [..., vocab].
        target_logits: [..., vocab].
        vocab_dim: the classes.
        temperature: T, which evens out both distributions.
        z_loss: weight of the squared log of the partition function, of the softened logits.
        classes: how many of the entries are classes; those beyond have logits of -inf.

    Returns:
        float32, the dimensions of `logits` less `vocab_dim`.
    """
    soft = mtf.softmax(mtf.to_float(target_logits) / temperature, vocab_dim)
    wide = mtf.to_float(logits) / temperature
    log_z = mtf.reduce_logsumexp(wide, vocab_dim)
    log_predicted = wide - log_z
    if classes is not None and classes < vocab_dim.size:
        real = mtf.less(mtf.mtf_range(logits.mesh, vocab_dim), classes)
        log_predicted = mtf.where(real, log_predicted, 0.0, output_shape=logits.shape)
    return mtf.square(log_z) * z_loss - mtf.reduce_sum(soft * log_predicted, reduced_dim=vocab_dim)


def softmax_cross_entropy_with_logits(
    logits: Tensor, targets: Tensor, vocab_dim: Dimension, z_loss: float = 0.0
) -> Tensor:
    """-Σ t log softmax(logits) + z_loss (log Z)², for each position, in float32.

    Args:
        logits: [..., vocab].
        targets: integers, the dimensions of `logits` less `vocab_dim`; or a distribution t,
            floating and with `vocab_dim`.
        vocab_dim: the classes.
        z_loss: weight of the squared log of the partition function.

    Returns:
        float32, the dimensions of `logits` less `vocab_dim`.

    Raises:
        ShapeError: if the targets are neither.
    """
    soft = vocab_dim in targets.shape
    refuse(
        f"softmax_cross_entropy_with_logits of {logits.shape} and {targets.dtype.name} "
        f"{targets.shape}",
        [
            f"the logits have no {vocab_dim}" if vocab_dim not in logits.shape else None,
            "a distribution is floating" if soft and not targets.dtype.is_floating else None,
            "targets without the classes are integers"
            if not soft and not targets.dtype.is_integer
            else None,
        ],
    )
    if not soft:
        return softmax_cross_entropy(logits, targets, vocab_dim, z_loss)
    wide = mtf.to_float(logits)
    log_z = mtf.reduce_logsumexp(wide, vocab_dim)
    loss = -mtf.reduce_sum(mtf.to_float(targets) * (wide - log_z), reduced_dim=vocab_dim)
    return loss + mtf.square(log_z) * z_loss if z_loss else loss


def sigmoid_cross_entropy_with_logits(logits: Tensor, targets: Tensor) -> Tensor:
    """-t log σ(x) - (1 - t) log(1 - σ(x)) of each element, without overflow, in float32.

    Args:
        logits: x, any shape.
        targets: t, the probabilities that are aimed at, of the shape of `logits`.

    Raises:
        ShapeError: if the shapes differ.
    """
    differ = set(logits.shape) != set(targets.shape)
    refuse(
        f"sigmoid_cross_entropy_with_logits of {logits.shape} and {targets.shape}",
        ["the dimensions differ" if differ else None],
    )
    x, t = mtf.to_float(logits), mtf.to_float(targets)
    return mtf.softplus(x) - x * t


def weights_nonzero(targets: Tensor, dtype: tf.DType = tf.float32) -> Tensor:
    """1 where a target is not 0, else 0.

    Args:
        targets: integers.
        dtype: of the result.
    """
    return mtf.cast(mtf.not_equal(targets, 0), dtype)


@dataclass(frozen=True)
class _Terms:
    """The parts of a cross entropy, written for one pass over the logits each.

    Attributes:
        vocab: the classes.
        z_loss: see `softmax_cross_entropy`.
        label_smoothing: see `softmax_cross_entropy`.
        classes: see `softmax_cross_entropy`.
    """

    vocab: Dimension
    z_loss: float
    label_smoothing: float
    classes: int

    def loss(self, logits: Tensor, targets: Tensor) -> list[Tensor]:
        """The loss and log Z, both without the vocabulary."""
        wide = mtf.to_float(logits)
        peak = mtf.reduce_max(wide, reduced_dim=self.vocab)
        log_z = mtf.log(mtf.reduce_sum(mtf.exp(wide - peak), reduced_dim=self.vocab)) + peak
        target_logit = mtf.to_float(self._at(targets, logits))
        expected = target_logit * (1.0 - self.label_smoothing)
        if self.label_smoothing:
            kept = mtf.where(self._real(logits), wide, 0.0, output_shape=wide.shape)
            spread = self.label_smoothing / self.classes
            expected += mtf.reduce_sum(kept, reduced_dim=self.vocab) * spread
        return [log_z - expected + mtf.square(log_z) * self.z_loss, log_z]

    def gradient(self, logits: Tensor, targets: Tensor, log_z: Tensor, dy: Tensor) -> list[Tensor]:
        """The derivative by the logits."""
        share = mtf.exp(mtf.to_float(logits) - log_z) * (dy * (log_z * (2.0 * self.z_loss) + 1.0))
        hit = self._hit(targets, logits)
        share -= mtf.where(hit, dy * (1.0 - self.label_smoothing), 0.0, output_shape=logits.shape)
        if self.label_smoothing:
            spread = dy * (self.label_smoothing / self.classes)
            share -= mtf.where(self._real(logits), spread, 0.0, output_shape=logits.shape)
        return [mtf.cast(share, logits.dtype)]

    def _at(self, targets: Tensor, logits: Tensor) -> Tensor:
        """The logits of the targets; 0 for a target that is none of the entries."""
        rest = logits.shape - self.vocab
        if logits.mesh.splits(self.vocab) == 1:
            return mtf.gather(logits, targets, self.vocab, rest)
        # A gather would bring the parts together.
        kept = mtf.where(self._hit(targets, logits), logits, 0.0, output_shape=logits.shape)
        return mtf.reduce_sum(kept, output_shape=rest)

    def _hit(self, targets: Tensor, logits: Tensor) -> Tensor:
        """Of the shape of the logits, whether an entry is the target."""
        position = mtf.mtf_range(logits.mesh, self.vocab, targets.dtype)
        return mtf.equal(position, targets, output_shape=logits.shape)

    def _real(self, logits: Tensor) -> Tensor:
        """[vocab], whether an entry is a class."""
        return mtf.less(mtf.mtf_range(logits.mesh, self.vocab), self.classes)
