"""Modes `eval` and `score_eval`: a task's metrics of what is decoded, or of how targets score."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtf_models.data.without_examples import without_examples
from mtf_models.runtime.bindings.tasks import TaskOptions
from mtf_models.runtime.folder.metrics import MetricsWriter
from mtf_models.runtime.original.used_model import UsedModel, decode, in_a_line, write_lines
from mtf_models.runtime.using.evaluation import Evaluation, Plan, evaluate


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
    options: Mapping[str, TaskOptions] | None = None,
) -> Iterator[TaskResult]:
    """Evaluates a task, or each task of a mixture that has the split.

    Args:
        used: what is evaluated.
        name: of the task or mixture.
        split: of the dataset.
        count: at most so many examples of each task.
        by_score: whether predictions are the log-likelihoods of targets, else decoded texts.
        lengths: feature name to length; None for the config's.
        options: task name to what is different for it.
    """
    plan = Plan(
        name,
        split,
        count,
        used.lengths if lengths is None else lengths,
        options or {},
        decodes=not by_score,
        scores=by_score,
        as_the_original=True,
        texts_of=_texts,
    )
    for found in evaluate(used.model, plan):
        yield TaskResult(found.task, found.metrics, _lines(found, used.step, by_score))


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
        raise without_examples(split, [name])
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


def _lines(found: Evaluation, step: int | None, by_score: bool) -> dict[str, list[str]]:
    samples = found.samples
    lines = {"targets": [in_a_line(sample.reference) for sample in samples]}
    if samples[0].input is not None:
        lines["inputs"] = [in_a_line(sample.input) for sample in samples]
    if by_score:
        lines[f"{step}_predictions"] = [f"{sample.log_probability:g}" for sample in samples]
    else:
        lines[f"{step}_outputs"] = [str(sample.prediction) for sample in samples]
        lines[f"{step}_predictions"] = [in_a_line(sample.value) for sample in samples]
    return lines


def _texts(task: Any, ids: np.ndarray) -> list[str]:
    vocabulary = task.output_features["targets"].vocabulary
    return [decode(vocabulary, row) for row in ids]
