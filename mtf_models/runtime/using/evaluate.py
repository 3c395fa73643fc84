"""Evaluation: decode a split of a task and compare."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mtf_models import installation, processes
from mtf_models.checkpoint.locate import folder_of
from mtf_models.errors import failing_run
from mtf_models.mesh import Dimension
from mtf_models.processes.agreement import check_same
from mtf_models.runtime.bindings.settings import batch_size_on
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.folder.metrics import METRICS_FILE, MetricsWriter
from mtf_models.runtime.model.decode_request import length_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import EvalOptions
from mtf_models.runtime.using.trained import load_for_use

if TYPE_CHECKING:
    from mtf_models.data.evaluation import EvaluationBatch

SPLIT = "validation"
"""The split that is evaluated unless another one is asked for."""

_SAMPLES = 10
_INPUT_WIDTH = 40

_log = logging.getLogger("mtf_models")


@dataclass(frozen=True)
class Sample:
    """One example beside what the model made of it.

    Attributes:
        input: its text.
        references: the texts that are right.
        prediction: the model's text.
        right: whether that is, as the task reads it, one of the references.
    """

    input: str
    references: Sequence[str]
    prediction: str
    right: bool

    def text(self, width: int) -> str:
        """A line: input, prediction, whether it is right, references."""
        given = _visible(self.input)[:width]
        mark = "=" if self.right else "≠"
        references = _visible(" | ".join(self.references))
        return f"  {given:<{width}}  {_visible(self.prediction)}  {mark}  {references}"


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
    metrics: Mapping[str, float]
    samples: Sequence[Sample]

    def rows(self) -> dict[str, float]:
        """The metrics as `metrics.jsonl` has them."""
        return {f"{self.task}/{name}": value for name, value in self.metrics.items()}

    def text(self) -> str:
        """The metrics in a line, and the samples in a table."""
        values = "  ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        width = min(max((len(s.input) for s in self.samples), default=0), _INPUT_WIDTH)
        lines = [f"{self.task}, {self.examples} examples: {values}"]
        return "\n".join([*lines, *(sample.text(width) for sample in self.samples)])


def evaluate(
    model: Model, name: str, split: str = SPLIT, num_examples: int | None = None
) -> Iterator[Evaluation]:
    """Evaluates a task, or each task of a mixture.

    Args:
        model: what to evaluate.
        name: of the task or mixture.
        split: of the dataset.
        num_examples: at most so many of each task.

    Yields:
        An evaluation for each task that has the split.

    Raises:
        DataError: if there is no such task, or none of them has the split.
    """
    from mtf_models.data.tasks import tasks_with_split

    for task in tasks_with_split(name, split):
        yield _evaluate_task(model, task, split, num_examples)


def _evaluate_task(model: Model, task: Any, split: str, num_examples: int | None) -> Evaluation:
    from mtf_models.data.evaluation import decode_texts, evaluation_batches
    from mtf_models.data.metrics import compute_metrics

    known = model.settings.sequence_length
    lengths = {name: known[name] for name in task.output_features if name in known}
    rows = batch_rows(model, num_examples)
    decodes = task.predict_metric_fns and "inputs" in lengths
    length = length_of(model, None, {}) if decodes else {}
    examples: list[Any] = []
    predictions: list[str] = []
    loss = tokens = 0.0
    batches = evaluation_batches(task.name, lengths, rows, split, num_examples)
    for batch in reporting_trimmed(batches, lengths):
        loss -= float(model.score(batch.features).numpy()[: batch.rows].sum())
        tokens += float((batch.features["targets"] > 0).sum())
        examples += batch.examples
        if decodes:
            found = model.decode(batch.features, **length)
            predictions += decode_texts(task, found.ids.numpy()[: batch.rows])
    metrics = {"loss": loss / max(tokens, 1.0)}
    if predictions:
        metrics = compute_metrics(task, examples, predictions) | metrics
    return Evaluation(task.name, len(examples), metrics, _samples(task, examples, predictions))


def _samples(task: Any, examples: Sequence[Any], predictions: Sequence[str]) -> list[Sample]:
    """Some examples, evenly spaced; none if nothing was decoded."""
    from mtf_models.data.metrics import reference

    count = min(_SAMPLES, len(predictions))
    samples = []
    for i in np.linspace(0, len(predictions) - 1, count).astype(int):
        found = task.postprocess_fn(predictions[i], example=examples[i], is_target=False)
        references = reference(task, examples[i])
        if not isinstance(references, list):
            references = [references]
        samples.append(
            Sample(
                input=_input_text(task, examples[i]),
                references=[str(text) for text in references],
                prediction=str(predictions[i]),
                right=found in references,
            )
        )
    return samples


def _input_text(task: Any, example: Mapping[str, Any]) -> str:
    text = example.get("inputs_pretokenized")
    if text is None:
        text = task.output_features["inputs"].vocabulary.decode(example["inputs"].tolist())
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)


def _visible(text: str) -> str:
    """A text in which what no terminal should be sent is replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def batch_rows(model: Model, examples: int | None = None) -> int:
    """Rows in a batch of evaluation or prediction: the config's, whole on every part of the mesh.

    Args:
        model: what evaluates or predicts.
        examples: how many there are at the most, if that is known.
    """
    rows = batch_size_on(model.mesh, model.settings)
    rows = min(rows, examples or rows)
    parts = model.mesh.splits(Dimension("batch", rows))
    return -(-rows // parts) * parts


def report_trimmed(trimmed: Mapping[str, int], examples: int, lengths: Mapping[str, int]) -> None:
    """Says how many examples were longer than the model reads.

    Args:
        trimmed: feature name to how many examples were cut.
        examples: how many there were.
        lengths: feature name to length.
    """
    for name, count in trimmed.items():
        if count:
            _log.warning("%d of %d %s were cut to %d tokens.", count, examples, name, lengths[name])


def reporting_trimmed(
    batches: Iterable[EvaluationBatch], lengths: Mapping[str, int]
) -> Iterator[EvaluationBatch]:
    """Hands batches on, and at their end says what of them was cut, see `report_trimmed`.

    Args:
        batches: of examples.
        lengths: feature name to length.
    """
    trimmed, examples = dict.fromkeys(lengths, 0), 0
    for batch in batches:
        trimmed = {name: count + batch.trimmed[name] for name, count in trimmed.items()}
        examples += batch.rows
        yield batch
    report_trimmed(trimmed, examples, lengths)


def run(options: EvalOptions) -> None:
    """Evaluates the checkpoint of a run folder, prints the metrics and adds them to its rows.

    Raises:
        MtfError: if the folder, the task or the split cannot be used.
    """
    from mtf_models.data.tasks import tasks_with_split

    model, step = load_for_use(options)
    same = {"config": model.config.text(), "step": str(step)}
    check_same(processes.current(), {**same, "versions": str(installation.versions())})
    name, split = options.task or prepare.task_name(model.config), options.split or SPLIT
    count = options.num_examples or prepare.eval_examples(model.config)
    tasks_with_split(name, split)
    folder = folder_of(options.model_dir)
    with (
        failing_run(),
        model.config.active(),
        contextlib.closing(MetricsWriter(folder)) as writer,
    ):
        for found in evaluate(model, name, split, count):
            print(f"step {step}  {found.text()}", flush=True)
            writer.write(step, found.rows(), "eval")
    print(f"Added to {folder / METRICS_FILE}.")
