"""Modes `eval` and `score_eval`: a task's metrics of what is decoded, or of how targets score."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtf_models.errors import DataError
from mtf_models.runtime.folder.metrics import MetricsWriter
from mtf_models.runtime.original.used_model import UsedModel, decode, in_a_line, write_lines
from mtf_models.runtime.using.evaluate import batch_rows, reporting_trimmed


@dataclass(frozen=True)
class TaskResult:
    """What was found of one task.

    Attributes:
        task: its name.
        metrics: by name.
        lines: end of a file's name to its lines: `inputs`, `targets`, `<step>_predictions` and,
            of what was decoded, `<step>_outputs`.
    """

    task: str
    metrics: Mapping[str, float]
    lines: Mapping[str, Sequence[str]]


def evaluate_tasks(
    used: UsedModel,
    name: str,
    split: str,
    count: int | None = None,
    by_score: bool = False,
    lengths: Mapping[str, int] | None = None,
) -> Iterator[TaskResult]:
    """Evaluates a task, or each task of a mixture that has the split.

    Args:
        used: what is evaluated.
        name: of the task or mixture.
        split: of the dataset.
        count: at most so many examples of each task.
        by_score: whether predictions are the log-likelihoods of targets, else decoded texts.
        lengths: feature name to length; None for the config's.
    """
    from mtf_models.data.tasks import tasks_with_split

    for task in tasks_with_split(name, split):
        known = used.lengths if lengths is None else lengths
        read = {n: known[n] for n in task.output_features if n in known}
        yield _evaluate_task(used, task, split, count, by_score, read)


def longest_examples(name: str, split: str, count: int | None = None) -> dict[str, int]:
    """The longest example of each feature in a split, over the tasks of a mixture.

    Args:
        name: of the task or mixture.
        split: of the dataset.
        count: at most so many examples of each task are read.

    Raises:
        DataError: if there is no example.
    """
    from mtf_models.data.tasks import tasks_with_split

    longest: dict[str, int] = {}
    for task in tasks_with_split(name, split):
        dataset = task.get_dataset(None, split, shuffle=False, num_epochs=1)
        for example in itertools.islice(dataset.as_numpy_iterator(), count):
            for feature in task.output_features:
                longest[feature] = max(longest.get(feature, 1), len(example[feature]))
    if not longest:
        raise DataError(f"The split {split!r} of {name} has no example.")
    return longest


def report(
    used: UsedModel, results: Iterator[TaskResult], folder: Path, writes_examples: bool
) -> None:
    """Prints the metrics of each task, and writes them and the texts into a folder.

    Args:
        used: what was evaluated.
        results: of its tasks.
        folder: made if need be.
        writes_examples: whether texts are written.
    """
    for result in results:
        shown = "  ".join(f"{metric} {value:.4g}" for metric, value in result.metrics.items())
        examples = len(next(iter(result.lines.values())))
        print(f"step {used.step}  {result.task}, {examples} examples: {shown}", flush=True)
        for ending, lines in result.lines.items() if writes_examples else ():
            write_lines(folder / f"{result.task}_{ending}", lines)
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(MetricsWriter(folder)) as writer:
            rows = {f"{result.task}/{metric}": value for metric, value in result.metrics.items()}
            writer.write(used.step, rows, "eval")


def _evaluate_task(
    used: UsedModel,
    task: Any,
    split: str,
    count: int | None,
    by_score: bool,
    lengths: Mapping[str, int],
) -> TaskResult:
    from mtf_models.data.evaluation import evaluation_batches
    from mtf_models.data.metrics import reference

    examples: list[Mapping[str, Any]] = []
    found: list[Any] = []
    rows = batch_rows(used.model, count)
    batches = evaluation_batches(task.name, lengths, rows, split, count)
    for batch in reporting_trimmed(batches, lengths):
        examples += batch.examples
        predict = _scores if by_score else _texts
        found += predict(used, task, batch.features)[: batch.rows]
    lines = {"targets": [in_a_line(reference(task, example)) for example in examples]}
    if "inputs" in lengths:
        lines["inputs"] = [in_a_line(_input_text(task, example)) for example in examples]
    if by_score:
        lines[f"{used.step}_predictions"] = [f"{score:g}" for score in found]
    else:
        pairs = zip(found, examples, strict=True)
        predicted = [task.postprocess_fn(t, example=e, is_target=False) for t, e in pairs]
        lines[f"{used.step}_outputs"] = found
        lines[f"{used.step}_predictions"] = [in_a_line(value) for value in predicted]
    return TaskResult(task.name, _metrics(task, examples, found, by_score), lines)


def _texts(used: UsedModel, task: Any, features: Mapping[str, np.ndarray]) -> list[str]:
    vocabulary = task.output_features["targets"].vocabulary
    return [decode(vocabulary, row) for row in used.model.decode(features).ids.numpy()]


def _scores(used: UsedModel, task: Any, features: Mapping[str, np.ndarray]) -> list[float]:
    del task
    return [float(score) for score in used.model.score(features).numpy()]


def _metrics(
    task: Any, examples: Sequence[Mapping[str, Any]], found: Sequence[Any], by_score: bool
) -> dict[str, float]:
    from mtf_models.data.metrics import compute_metrics, compute_score_metrics

    if not examples:
        raise DataError(f"{task.name} has no example to evaluate.")
    if by_score:
        return compute_score_metrics(task, examples, found)
    return compute_metrics(task, examples, found)


def _input_text(task: Any, example: Mapping[str, Any]) -> Any:
    text = example.get("inputs_pretokenized")
    if text is not None:
        return text
    return decode(task.output_features["inputs"].vocabulary, example["inputs"])
