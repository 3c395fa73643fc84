"""Evaluation: decode a split of a task and compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtf_models.errors import failing_run
from mtf_models.mesh import Dimension
from mtf_models.runtime import prepare
from mtf_models.runtime.load import load_for_use
from mtf_models.runtime.metrics import MetricsWriter
from mtf_models.runtime.model import Model
from mtf_models.runtime.options import EvalOptions

_ROWS = 256
SAMPLES = 10


@dataclass(frozen=True)
class Sample:
    """One example beside what the model made of it."""

    input: str
    reference: Any
    prediction: str


@dataclass(frozen=True)
class Evaluation:
    """Of one task.

    Attributes:
        task: its name.
        examples: how many were read.
        metrics: by their own names; "loss" is the mean negative log-likelihood of a target token.
        samples: some of the examples.
    """

    task: str
    examples: int
    metrics: dict[str, float]
    samples: list[Sample]

    def rows(self) -> dict[str, float]:
        """The metrics as `metrics.jsonl` has them."""
        return {f"{self.task}/{name}": value for name, value in self.metrics.items()}

    def text(self) -> str:
        """The metrics in a line, and the samples in a table."""
        values = "  ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        lines = [f"{self.task}, {self.examples} examples: {values}"]
        width = max([len(s.input) for s in self.samples] + [5]) if self.samples else 0
        width = min(width, 40)
        for s in self.samples:
            reference = " | ".join(s.reference) if isinstance(s.reference, list) else s.reference
            right = "=" if s.prediction in ([s.reference, *s.reference]) else "≠"
            lines.append(f"  {s.input[:width]:<{width}}  {s.prediction}  {right}  {reference}")
        return "\n".join(lines)


def evaluate(
    model: Model, name: str, split: str, num_examples: int | None = None
) -> Iterator[Evaluation]:
    """Evaluates a task, or each task of a mixture.

    Args:
        model: what to evaluate.
        name: of the task or mixture.
        split: of the dataset.
        num_examples: at most so many of each task.

    Yields:
        An evaluation for each task that has the split.
    """
    from mtf_models.data.tasks import tasks_with_split

    for task in tasks_with_split(name, split):
        yield _evaluate_task(model, task, split, num_examples)


def _evaluate_task(model: Model, task: Any, split: str, num_examples: int | None) -> Evaluation:
    from mtf_models.data.evaluation import decode_texts, evaluation_batches
    from mtf_models.data.metrics import compute_metrics, reference

    rows = batch_rows(model)
    lengths = {n: model.settings.sequence_length[n] for n in task.output_features}
    examples: list[Any] = []
    predictions: list[str] = []
    loss = tokens = 0.0
    for batch in evaluation_batches(task.name, lengths, rows, split, num_examples):
        scores = model.score(batch.features).numpy()[: batch.rows]
        loss -= float(scores.sum())
        tokens += float((batch.features["targets"][: batch.rows] > 0).sum())
        examples += batch.examples
        if task.predict_metric_fns and "inputs" in batch.features:
            found = model.decode(batch.features, max_decode_length=lengths["targets"])
            predictions += decode_texts(task, found.ids.numpy()[: batch.rows])
    metrics = {"loss": loss / max(tokens, 1.0)}
    samples = []
    if predictions:
        metrics = compute_metrics(task, examples, predictions) | metrics
        for i in np.linspace(0, len(examples) - 1, SAMPLES).astype(int) if examples else []:
            given = examples[i]["inputs_pretokenized"]
            given = given.decode("utf-8") if isinstance(given, bytes) else str(given)
            samples.append(Sample(given, reference(task, examples[i]), predictions[i]))
    return Evaluation(task.name, len(examples), metrics, samples)


def batch_rows(model: Model) -> int:
    """Rows in a batch of evaluation or prediction, whole on every part of the mesh."""
    parts = model.mesh.splits(Dimension("batch", _ROWS))
    return -(-_ROWS // parts) * parts


def run(options: EvalOptions) -> None:
    """Evaluates the checkpoint of a run folder, prints the metrics and adds them to its rows.

    Raises:
        MtfError: if the folder, the task or the split cannot be used.
    """
    model, step = load_for_use(options)
    name = prepare.task_name(model.config)
    with failing_run():
        writer = MetricsWriter(Path(options.model_dir))
        for found in evaluate(model, name, options.split or "validation", options.num_examples):
            print(f"step {step}  {found.text()}", flush=True)
            writer.write(step, found.rows(), "eval")
        writer.flush()
    print(f"Added to {Path(options.model_dir) / 'metrics.jsonl'}.")
