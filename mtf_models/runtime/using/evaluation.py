"""Evaluation: the metrics of a task, of what is decoded for its examples and of their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mtf_models.data.without_examples import without_examples
from mtf_models.errors import ConfigError
from mtf_models.runtime.bindings.tasks import TaskOptions
from mtf_models.runtime.model.decode_request import DecodeRequest, length_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.using import samples
from mtf_models.runtime.using.batches import batch_rows, reporting_trimmed
from mtf_models.runtime.using.samples import Sample

SPLIT = "validation"
"""The split that is evaluated unless another one is asked for."""


@dataclass(frozen=True)
class Plan:
    """What is evaluated, and how.

    Attributes:
        name: of the task or mixture.
        split: of the dataset.
        num_examples: at most so many of each task; None for all.
        lengths: feature name to length; None for the model's.
        options: task name to what is different for it.
        decodes: whether texts are decoded, for metrics that compare texts.
        scores: whether targets are scored, for metrics that read scores, and for the loss.
        as_the_original: whether every task is decoded, until where the original's rule says unless
            options do, and the loss is left out.
        texts_of: turns a task and decoded ids [rows, length] into texts; None for the usual way.
    """

    name: str
    split: str = SPLIT
    num_examples: int | None = None
    lengths: Mapping[str, int] | None = None
    options: Mapping[str, TaskOptions] = field(default_factory=dict)
    decodes: bool = True
    scores: bool = True
    as_the_original: bool = False
    texts_of: Callable[[Any, np.ndarray], list[str]] | None = None

    def tasks(self) -> list[Any]:
        """The tasks: one, or those of a mixture that have the split.

        Raises:
            DataError: if there is no such task, none of them has the split, or one has no example.
            ConfigError: if there are options for others, or options that nothing knows.
        """
        from mtf_models.data.evaluation import require_examples
        from mtf_models.data.tasks import get_task_or_mixture, tasks_with_split

        tasks = tasks_with_split(self.name, self.split)
        require_examples(tasks, self.split)
        whole = get_task_or_mixture(self.name)
        known = {task.name for task in getattr(whole, "tasks", [whole])}
        unknown = sorted(set(self.options) - known)
        if unknown:
            raise ConfigError(
                f"mesh_eval_dataset_fn.task_options has {', '.join(unknown)}, and {self.name} "
                f"consists of {', '.join(sorted(known))}."
            )
        for options in self.options.values():
            DecodeRequest.of(**options.decode)
        return tasks


@dataclass(frozen=True)
class Evaluation:
    """Of one task.

    Attributes:
        task: its name.
        examples: how many were read.
        metrics: by their own names; "loss" is the mean negative log-likelihood of a target token,
            and "perplexity" its exponential.
        samples: each of the examples.
    """

    task: str
    examples: int
    metrics: Mapping[str, float]
    samples: Sequence[Sample]

    def rows(self) -> dict[str, float]:
        """The metrics as `metrics.jsonl` has them."""
        return {f"{self.task}/{name}": value for name, value in self.metrics.items()}

    def headline(self) -> str:
        """The metrics in a line."""
        values = "  ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"{self.task}, {self.examples} examples: {values}"

    def text(self) -> str:
        """The metrics in a line, and some samples in a table."""
        return "\n".join([self.headline(), *samples.table(self.samples)])


def evaluate(model: Model, plan: Plan) -> Iterator[Evaluation]:
    """Evaluates a task, or each task of a mixture, over exactly the examples there are.

    Args:
        model: what to evaluate.
        plan: what to evaluate it on.

    Yields:
        An evaluation for each task that has the split.

    Raises:
        DataError: if there is no such task, none of them has the split, or there is no example.
        ConfigError: if the options of a task do not fit.
    """
    for task in plan.tasks():
        yield _evaluate_task(model, task, plan)


def _evaluate_task(model: Model, task: Any, plan: Plan) -> Evaluation:
    from mtf_models.data.evaluation import decode_texts, evaluation_batches

    options = plan.options.get(task.name, TaskOptions())
    known = {**(plan.lengths or model.settings.sequence_length), **options.sequence_length}
    lengths = {
        name: known[name]
        for name, feature in task.output_features.items()
        if name in known and (feature.required or name in model.network.feature_names)
    }
    rows = batch_rows(model, plan.num_examples)
    decode = _decoding(model, task, plan, options, lengths)
    examples: list[Any] = []
    texts: list[str] = []
    scores: list[float] = []
    tokens = 0
    batches = evaluation_batches(task.name, lengths, rows, plan.split, plan.num_examples)
    for batch in reporting_trimmed(batches, lengths):
        examples += batch.examples
        if plan.scores:
            scores += model.score(batch.features).numpy()[: batch.rows].tolist()
            tokens += int((batch.features["targets"] > 0).sum())
        if decode is not None:
            ids = model.decode(batch.features, **decode).ids.numpy()[: batch.rows]
            texts += (plan.texts_of or decode_texts)(task, ids)
    if not examples:
        raise without_examples(plan.split, [task.name])
    metrics = _metrics(task, examples, texts, scores)
    if plan.scores and not plan.as_the_original:
        loss = -float(np.sum(scores)) / max(tokens, 1)
        metrics |= {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
    found = samples.samples_of(task, examples, texts, scores)
    return Evaluation(task.name, len(examples), metrics, found)


def _decoding(
    model: Model, task: Any, plan: Plan, options: TaskOptions, lengths: Mapping[str, int]
) -> dict[str, Any] | None:
    """The arguments of `Model.decode`; None where nothing is decoded."""
    if not plan.decodes:
        return None
    asked = dict(options.decode)
    if plan.as_the_original:
        return asked
    compares_texts = task.predict_metric_fns or task.predict_with_aux_metric_fns
    if not compares_texts or "inputs" not in lengths:
        return None
    if {"max_decode_length", "max_steps"} & set(asked):
        return asked
    length = options.sequence_length.get("targets")
    search = {n: x for n, x in asked.items() if n not in ("seed", "prefix", "row_numbers")}
    return asked | length_of(model, length, search)


def _metrics(
    task: Any, examples: Sequence[Any], texts: Sequence[str], scores: Sequence[float]
) -> dict[str, float]:
    from mtf_models.data.metrics import compute_metrics, compute_score_metrics

    found = compute_metrics(task, examples, texts, scores) if texts else {}
    return found | (compute_score_metrics(task, examples, scores) if scores else {})
