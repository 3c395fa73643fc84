"""Ensembles: several models of one config in one, and how their logits become one.

Every variable of a member stands beside those of the others, along a first dimension `ensemble`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.mesh import Dimension, Tensor

_MODULE = "mesh_tensorflow.transformer.transformer"

_IMPOSSIBLE = -1e9

Reduction = Callable[[Tensor, Dimension, Dimension], Tensor]
"""Takes logits [ensemble, ..., vocab] and these two dimensions; returns [..., vocab]."""


def by_member(features: Mapping[str, Tensor], ensemble_dim: Dimension) -> dict[str, Tensor]:
    """Gives each member rows of its own.

    Args:
        features: [batch, length].
        ensemble_dim: the members.

    Returns:
        [ensemble, batch, length]; the first member has the first rows.

    Raises:
        ConfigError: if the rows cannot be given out evenly.
    """
    found = {}
    for name, x in features.items():
        batch = x.shape.get_dim_by_name("batch")
        if batch.size % ensemble_dim.size:
            raise ConfigError(
                f"A batch of {batch.size} rows cannot be given out to the {ensemble_dim.size} "
                "members of run.ensemble_inputs evenly: give a multiple."
            )
        each = Dimension("batch", batch.size // ensemble_dim.size)
        found[name] = mtf.replace_dimensions(x, batch, [ensemble_dim, each])
    return found


@configurable(module=_MODULE)
def reduce_ensemble_logits_select(
    logits: Tensor, ensemble_dim: Dimension, vocab_dim: Dimension, model_id: int = 0
) -> Tensor:
    """The logits of one member.

    Args:
        logits: [ensemble, ..., vocab].
        ensemble_dim: the members.
        vocab_dim: the classes.
        model_id: which member, from 0.

    Raises:
        ConfigError: if there is no such member.
    """
    if not 0 <= model_id < ensemble_dim.size:
        raise ConfigError(
            f"reduce_ensemble_logits_select.model_id is {model_id}; the ensemble has members 0 to "
            f"{ensemble_dim.size - 1}."
        )
    member = mtf.slice(logits, model_id, 1, ensemble_dim.name)
    return mtf.reshape(member, logits.shape - ensemble_dim)


@configurable(module=_MODULE)
def reduce_ensemble_logits_mean_prob(
    logits: Tensor, ensemble_dim: Dimension, vocab_dim: Dimension
) -> Tensor:
    """The logarithm of the mean of the members' probabilities.

    Args:
        logits: [ensemble, ..., vocab].
        ensemble_dim: the members.
        vocab_dim: the classes.
    """
    log_probabilities = mtf.log_softmax(mtf.to_float(logits), vocab_dim)
    # A sum over nothing but -inf has no gradient.
    log_probabilities = mtf.maximum(log_probabilities, _IMPOSSIBLE)
    total = mtf.reduce_logsumexp(log_probabilities, ensemble_dim)
    return mtf.cast(total - math.log(ensemble_dim.size), logits.dtype)


@configurable(module=_MODULE)
def reduce_ensemble_logits_mean_logit(
    logits: Tensor, ensemble_dim: Dimension, vocab_dim: Dimension
) -> Tensor:
    """The mean of the members' logits.

    Args:
        logits: [ensemble, ..., vocab].
        ensemble_dim: the members.
        vocab_dim: the classes.
    """
    return mtf.reduce_mean(logits, reduced_dim=ensemble_dim)


@configurable(module=_MODULE)
def reduce_ensemble_logits(
    logits: Tensor,
    ensemble_dim: Dimension,
    vocab_dim: Dimension,
    reduce_fn: Reduction = reduce_ensemble_logits_mean_prob,
) -> Tensor:
    """The logits of the ensemble.

    Args:
        logits: [ensemble, ..., vocab].
        ensemble_dim: the members.
        vocab_dim: the classes.
        reduce_fn: one of the functions above.
    """
    return reduce_fn(logits, ensemble_dim, vocab_dim)
