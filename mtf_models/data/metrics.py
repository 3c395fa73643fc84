"""Metrics of tasks: those that the libraries lack, and how a task's metrics are computed."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import editdistance
import numpy as np
import seqio

from mtf_models.errors import DataError


def exact_match(targets: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Percentage of predictions that equal one of their references.

    Args:
        targets: the references of each example, any of which is right.
        predictions: one text for each example.

    Returns:
        `exact_match`, 0 to 100.
    """
    pairs = zip(targets, predictions, strict=True)
    right = [prediction in references for references, prediction in pairs]
    return {"exact_match": 100.0 * float(np.mean(right))}


def phoneme_error_rate(
    targets: Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
    """Edits that turn the predictions into their nearest references, in percent of their symbols.

    Args:
        targets: the references of each example, any of which is right: symbols joined by spaces.
        predictions: one text for each example, likewise.

    Returns:
        `phoneme_error_rate`: insertions, deletions and substitutions over all examples, for 100
        symbols of the references. 0 is perfect; it may exceed 100.
    """
    edits = symbols = 0
    for references, prediction in zip(targets, predictions, strict=True):
        candidates = [reference.split() for reference in references]
        distances = [editdistance.eval(prediction.split(), candidate) for candidate in candidates]
        nearest = int(np.argmin(distances))
        edits += distances[nearest]
        symbols += len(candidates[nearest])
    return {"phoneme_error_rate": 100.0 * edits / symbols}


def reference(task: seqio.Task, example: Mapping[str, Any]) -> Any:
    """What a task compares a prediction with.

    Args:
        task: the task.
        example: an example of its dataset, with all its features.

    Returns:
        The postprocessed target text, of the type that the task's metrics take.
    """
    text = example.get("targets_pretokenized")
    if text is None:
        text = task.output_features["targets"].vocabulary.decode(example["targets"].tolist())
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    return task.postprocess_fn(text, example=example, is_target=True)


def compute_metrics(
    task: seqio.Task,
    examples: Sequence[Mapping[str, Any]],
    predictions: Sequence[str],
    scores: Sequence[float] = (),
) -> dict[str, float]:
    """Computes the metrics of a task that compare texts.

    Args:
        task: the task.
        examples: its examples, with all their features.
        predictions: the decoded text for each of them.
        scores: the log-likelihood of each target, for metrics that compare texts and want scores
            beside them; without scores these metrics are left out.

    Returns:
        Each number under the metric's own name. Empty if the task has no metric.

    Raises:
        DataError: the task has metrics, but all of them want scores.
    """
    beside = task.predict_with_aux_metric_fns
    if task.metric_fns and not (task.predict_metric_fns or beside):
        raise DataError(
            f"The metrics of the task {task.name} compare scores, not texts: score its targets"
            " instead of decoding."
        )
    targets = [reference(task, example) for example in examples]
    outputs = [
        task.postprocess_fn(prediction, example=example, is_target=False)
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    found = _numbers(task.predict_metric_fns, targets, outputs)
    if len(scores):
        values = {"scores": list(scores)}
        found |= _numbers(
            [functools.partial(f, aux_values=values) for f in beside], targets, outputs
        )
    return found


def compute_score_metrics(
    task: seqio.Task, examples: Sequence[Mapping[str, Any]], scores: Sequence[float]
) -> dict[str, float]:
    """Computes the metrics of a task that read the log-likelihood of its targets.

    Args:
        task: the task.
        examples: its examples, with all their features.
        scores: one for each of them.

    Returns:
        Each number under the metric's own name. Empty if the task has no such metric.
    """
    targets = [reference(task, example) for example in examples]
    return _numbers(task.score_metric_fns, targets, scores)


def _numbers(
    metrics: Sequence[Callable[[Any, Any], Mapping[str, Any]]], targets: Any, outputs: Any
) -> dict[str, float]:
    values: dict[str, float] = {}
    for metric in metrics:
        for name, value in metric(targets, outputs).items():
            number = value.value if isinstance(value, seqio.metrics.Scalar) else value
            if isinstance(number, int | float | np.number):
                values[name] = float(number)
    return values
