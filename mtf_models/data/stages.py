"""Examples of a task after each stage of its pipeline: raw, preprocessed, tokenised, packed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from mtf_models.data.packing import fill_rows, group
from mtf_models.data.text_task import tokenize_texts

Example = Mapping[str, Any]
"""Feature to a text, a number or an array."""

_TOKENIZERS = (
    seqio.preprocessors.tokenize,
    seqio.preprocessors.tokenize_and_append_eos,
    tokenize_texts,
)


def raw(task: seqio.Task, split: str) -> tf.data.Dataset:
    """The examples of a split as its source has them."""
    return task.source.get_dataset(split=split, shuffle=False)


def preprocessed(task: seqio.Task, split: str, lengths: Mapping[str, int]) -> tf.data.Dataset:
    """The examples as they are before they are tokenised, or after all preprocessors if never.

    Args:
        task: the task.
        split: of it.
        lengths: feature to length, for preprocessors that want it.
    """
    dataset = raw(task, split)
    steps = itertools.takewhile(lambda step: _function(step) not in _TOKENIZERS, task.preprocessors)
    with seqio.utils.map_seed_manager(0):
        for step in steps:
            if not isinstance(step, seqio.CacheDatasetPlaceholder):
                known = {"sequence_length": lengths, "output_features": task.output_features}
                dataset = seqio.utils.add_kwargs_to_transform(step, **known)(dataset)
    return dataset


def tokenised(task: seqio.Task, split: str, lengths: Mapping[str, int]) -> tf.data.Dataset:
    """The examples as models read them, uncut: feature to ids, and what goes with them."""
    cuts = seqio.preprocessors.append_eos_after_trim
    steps = [
        seqio.preprocessors.append_eos if _function(step) is cuts else step
        for step in task.preprocessors
    ]
    return task.replace(preprocessors=steps).get_dataset(
        lengths, split, shuffle=False, seed=0, num_epochs=1, trim_output_features=False
    )


def packed_rows(
    examples: Sequence[Example], lengths: Mapping[str, int]
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Packs examples.

    Returns:
        Feature to ids [rows, length], with segments and positions; and feature to the share of
        positions that hold a token.
    """
    features, counts = fill_rows(list(group(examples, lengths)), lengths)
    return features, counts.fill(lengths)


def _function(step: Callable[..., Any]) -> Callable[..., Any]:
    return _function(step.func) if isinstance(step, functools.partial) else step
