"""Objectives on plain text, which gin chooses: tasks for them, and what they need of a vocabulary.

t5's preprocessors do the work: `t5.data.preprocessors.unsupervised` applies what gin binds, and the
files below `gin/objectives` bind it.
"""

import copy
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import gin
import numpy as np
import seqio
from t5.data import preprocessors

from mtf_models.errors import ConfigError, DataError

_ONE_SENTINEL = (
    "noise_token_to_sentinel",
    "noise_span_to_sentinel",
    "nonnoise_span_to_sentinel",
    "noise_token_to_random_token_or_sentinel",
)
_SENTINEL_A_SPAN = ("noise_span_to_unique_sentinel", "nonnoise_span_to_unique_sentinel")
_WITHOUT = "objectives/prefix_lm.gin, objectives/iid_15_d_d.gin or objectives/lm.gin"
_DRAWS = 8

_log = logging.getLogger("mtf_models")


def add_text_task(
    name: str, source: seqio.DataSource, text: str, vocabulary: seqio.Vocabulary
) -> seqio.Task:
    """Registers a task over plain text that leaves its objective to gin.

    Args:
        name: to register it under.
        source: of examples with a text.
        text: under which name they have it.
        vocabulary: of inputs and targets; with extra ids, if the objective marks spans.

    Returns:
        The task. Its `inputs` may be absent, as they are where a language model reads it.
    """
    return seqio.TaskRegistry.add(
        name,
        source=source,
        preprocessors=[
            functools.partial(seqio.preprocessors.rekey, key_map={"targets": text}),
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            preprocessors.unsupervised,
            seqio.preprocessors.append_eos_after_trim,
        ],
        output_features={
            "inputs": seqio.Feature(vocabulary, required=False),
            "targets": seqio.Feature(vocabulary),
        },
        metric_fns=[],
    )


def check_objective(task: seqio.Task, lengths: Mapping[str, int]) -> None:
    """Refuses an objective that a task's vocabulary has no ids for, and a task without objective.

    Args:
        task: which may or may not leave its objective to gin.
        lengths: feature name to the length of a row.

    Raises:
        ConfigError: if the task leaves its objective to gin, and gin says nothing, or nothing that
            gives the features there are lengths for.
        DataError: if the objective marks what is missing by sentinels, and the vocabulary has none.
    """
    steps = [_function(step) for step in task.preprocessors]
    if preprocessors.unsupervised in steps:
        chosen = [_function(step) for step in _bound("unsupervised.preprocessors") or ()]
        _check_chosen(task.name, chosen, lengths)
        if preprocessors.denoise in chosen:
            names = [_bound(f"denoise.{side}_fn") for side in ("inputs", "targets")]
            _check_sentinels(task, [_function(f).__name__ for f in names if f], lengths, _spans)
    elif preprocessors.span_corruption in steps:
        _check_sentinels(task, _SENTINEL_A_SPAN, lengths, lambda length: 0)


def _check_chosen(name: str, chosen: list[Callable], lengths: Mapping[str, int]) -> None:
    if not chosen:
        raise ConfigError(
            f"The task {name} is plain text and leaves its objective to gin, which names none: "
            "give --gin_file=objectives/span_3_15_u_u.gin, or another file of that folder."
        )
    if "inputs" in lengths and preprocessors.denoise not in chosen:
        raise ConfigError(
            f"The objective of the task {name} gives targets alone, and the model reads inputs "
            "too: give objectives/span_3_15_u_u.gin, or another file of that folder but lm.gin."
        )
    if "inputs" not in lengths and preprocessors.denoise in chosen:
        raise ConfigError(
            f"The objective of the task {name} gives inputs and targets, and the model reads "
            "targets alone: give --gin_file=objectives/lm.gin."
        )


def _check_sentinels(
    task: seqio.Task, names: Any, lengths: Mapping[str, int], spans: Callable[[int], int]
) -> None:
    needing = [name for name in names if name in (*_ONE_SENTINEL, *_SENTINEL_A_SPAN)]
    if not needing:
        return
    lacking = [n for n in lengths if not task.output_features[n].vocabulary.extra_ids]
    if lacking:
        raise DataError(
            f"The objective of the task {task.name} marks what is missing by sentinels "
            f"({', '.join(needing)}), and its vocabulary of {' and '.join(lacking)} has no extra "
            "ids for them: ordinary pieces would be taken. Make the vocabulary with extra_ids=100 "
            "(seqio.SentencePieceVocabulary(model, extra_ids=100), or ByteVocabulary), or take an "
            f"objective without sentinels: {_WITHOUT}."
        )
    there = task.output_features["targets"].vocabulary.extra_ids
    if any(name in _SENTINEL_A_SPAN for name in needing):
        needed = spans(lengths["inputs"])
        if needed > there:
            _log.warning(
                "%s: %d spans of an example can be missing, and the vocabulary has %d sentinels; "
                "its last ordinary pieces mark the others, as in T5.",
                task.name,
                needed,
                there,
            )


def _spans(length: int) -> int:
    """The most spans in some masks over a text of a length, and in the other way round."""
    mask, density = _bound("denoise.noise_mask_fn"), _bound("denoise.noise_density")
    most = 0
    for number in range(_DRAWS):
        seeds = np.array([[number, 0], [number, 1]], np.int32)
        noise = np.asarray(mask(np.int32(length), density, seeds=seeds))
        most = max(most, 1 + int((noise[1:] != noise[:-1]).sum() + 1) // 2)
    return most


def _bound(name: str) -> Any:
    """What gin binds to a parameter of t5's preprocessors, references followed, or None."""
    try:
        # Copying is what makes gin follow references, when it calls a function.
        return copy.deepcopy(gin.query_parameter(f"t5.data.preprocessors.{name}"))
    except ValueError:
        return None


def _function(step: Any) -> Any:
    """A function without what is bound to it, by Python or by gin."""
    while isinstance(step, functools.partial):
        step = step.func
    return step
