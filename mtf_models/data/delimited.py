"""Inputs and targets in one sequence, or position by position: what models of one stack read."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping

import numpy as np

from mtf_models.errors import DataError

_EOS = 1

_log = logging.getLogger("mtf_models")


def join(features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Makes one sequence of the inputs and targets of each example.

    An example becomes its inputs, their end of sequence, its targets and theirs; the examples of a
    packed row follow one another. The end of the inputs is what divides the two: inputs that were
    cut get one in the place of their last token, and so do targets with another example behind.

    Args:
        features: `inputs` [batch, m] and `targets` [batch, n], integers, 0 at padding; either both
            with their `_segmentation` or one example a row.

    Returns:
        `targets`, `targets_segmentation` and `targets_position`, [batch, m + n].
    """
    sides = ("inputs", "targets")
    ids = np.concatenate([np.asarray(features[name]) for name in sides], axis=1)
    segments = [
        np.asarray(features.get(f"{name}_segmentation", features[name] != 0)) for name in sides
    ]
    segment = np.concatenate(segments, axis=1).astype(ids.dtype)
    side = np.repeat([0, 1], [part.shape[1] for part in segments])
    # A stable sort: examples one after another, in each the inputs first, padding last.
    key = np.where(segment > 0, 2 * segment + side, np.iinfo(ids.dtype).max)
    order = np.argsort(key, axis=1, kind="stable")
    ids, segment, key = (np.take_along_axis(x, order, axis=1) for x in (ids, segment, key))
    return {
        "targets": _ended(ids, segment, key),
        "targets_segmentation": segment,
        "targets_position": _positions(segment),
    }


def ended(inputs: np.ndarray) -> np.ndarray:
    """Inputs alone, each with the end of sequence that `join` gives it.

    Args:
        inputs: [batch, length] integers, 0 at padding.
    """
    inputs = np.asarray(inputs)
    return join({"inputs": inputs, "targets": inputs[:, :0]})["targets"]


def check_aligned(features: Mapping[str, np.ndarray]) -> None:
    """Refuses inputs and targets that do not belong to each other position by position.

    Args:
        features: `inputs` and `targets` [batch, length], with their packing.

    Raises:
        DataError: if they have different shapes or segments.
    """
    inputs, targets = features["inputs"], features["targets"]
    if inputs.shape != targets.shape:
        raise DataError(
            f"inputs are {list(inputs.shape)} and targets {list(targets.shape)}, and this model "
            "predicts a target for each input: give both one length (run.sequence_length)."
        )
    for suffix in ("_segmentation", "_position"):
        if not np.array_equal(*(features.get(n + suffix, 0) for n in ("inputs", "targets"))):
            raise DataError(
                f"inputs{suffix} and targets{suffix} differ, and this model predicts a target for "
                "each input: pack both alike."
            )


def _ended(ids: np.ndarray, segment: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Sets the ends of sequences on which telling inputs from targets depends."""
    following = np.pad(key[:, 1:], [[0, 0], [0, 1]], constant_values=-1)
    last = (segment > 0) & (key != following)
    behind = np.pad(segment[:, 1:], [[0, 0], [0, 1]]) > 0
    missing = last & (ids != _EOS) & (behind | (key % 2 == 0))
    if missing.any():
        _say_ended()
    return np.where(missing, np.array(_EOS, ids.dtype), ids)


@functools.cache
def _say_ended() -> None:
    _log.warning(
        "Inputs (or targets with another example behind) without an end of sequence, %d, get one "
        "in the place of their last token. Said once.",
        _EOS,
    )


def _positions(segment: np.ndarray) -> np.ndarray:
    """How far each token is from the first of its example; 0 at padding."""
    index = np.broadcast_to(np.arange(segment.shape[1], dtype=segment.dtype), segment.shape)
    starts = segment != np.pad(segment[:, :-1], [[0, 0], [1, 0]])
    first = np.maximum.accumulate(np.where(starts, index, 0), axis=1)
    return np.where(segment > 0, index - first, 0)
