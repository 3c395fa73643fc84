"""Mode `perplexity_eval`: how well given targets are predicted, token by token."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.data.without_examples import without_examples
from mtf_models.layers.loss import softmax_cross_entropy
from mtf_models.runtime.folder.metrics import MetricsWriter
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.original.used_model import UsedModel
from mtf_models.runtime.using.batches import batch_rows, reporting_trimmed


def evaluate_perplexity(
    used: UsedModel, name: str, split: str, steps: int, count: int | None = None
) -> None:
    """Prints the metrics of each task, and writes them into `eval_<task>_<split>_<n>`.

    Args:
        used: what is evaluated.
        name: of the task or mixture.
        split: of the dataset.
        steps: how many batches are read at the most.
        count: at most so many examples of each task.
    """
    from mtf_models.data.tasks import tasks_with_split

    for number, task in enumerate(tasks_with_split(name, split)):
        totals, rest = _totals_of_task(used, task, split, steps, count)
        found = totals.metrics()
        shown = "  ".join(f"{metric} {value:.4g}" for metric, value in found.items())
        read = f"{task.name} {split}, {totals.rows} examples{rest}"
        print(f"step {used.step}  {read}: {shown}", flush=True)
        folder = Path(used.folder, f"eval_{task.name}_{split}_{number}")
        folder.mkdir(exist_ok=True)
        with contextlib.closing(MetricsWriter(folder)) as writer:
            writer.write(used.step, found, "eval")


def _totals_of_task(
    used: UsedModel, task: Any, split: str, steps: int, count: int | None
) -> tuple[_Totals, str]:
    """What was found, and a word on what was not read."""
    from mtf_models.data.evaluation import evaluation_batches

    lengths = {n: used.lengths[n] for n in task.output_features}
    rows = batch_rows(used.model, count)
    batches = evaluation_batches(task.name, lengths, rows, split, count)
    totals = _Totals()
    for batch in reporting_trimmed(itertools.islice(batches, steps), lengths):
        totals.add(used.model, batch.features, batch.rows)
    if not totals.losses:
        raise without_examples(split, [task.name])
    if next(batches, None) is None:
        return totals, ""
    total = task.num_input_examples(split)
    return totals, " of more" if total is None else f" of {min(total, count or total)}"


class _Totals:
    """Sums over batches of what is counted by tokens and by rows."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.log_likelihood = self.labels = 0.0
        self.tokens = self.right_tokens = self.rows = self.right_rows = self.longest = 0

    def add(self, model: Model, features: Mapping[str, np.ndarray], rows: int) -> None:
        """Counts the real rows of a batch."""
        output = model(features)
        targets = model.tensors(features)["targets"]
        vocab = output.logits.shape.get_dim_by_name("vocab")
        nll = softmax_cross_entropy(output.logits, targets, vocab).numpy()[:rows]
        best = mtf.top_1(mtf.to_float(output.logits), vocab)[1].numpy()[:rows]
        labels = np.asarray(targets.numpy())[:rows]
        real = labels > 0
        right = (best == labels) | ~real
        self.losses.append(float(output.loss))
        self.log_likelihood -= float(nll[real].sum(dtype=np.float64))
        self.labels += float(labels[real].sum(dtype=np.float64))
        self.tokens += int(real.sum())
        self.right_tokens += int((right & real).sum())
        self.rows += rows
        self.right_rows += int(right.all(axis=1).sum())
        self.longest = max(self.longest, int(real.sum(axis=1).max()))

    def metrics(self) -> dict[str, float]:
        """The original's metrics, under its names."""
        tokens = max(self.tokens, 1)
        return {
            "loss": float(np.mean(self.losses)),
            "neg_log_perplexity": self.log_likelihood / tokens,
            "token_accuracy": self.right_tokens / tokens,
            "sequence_accuracy": self.right_rows / self.rows,
            "mean_label": self.labels / tokens,
            "num_eval_tokens": float(self.tokens),
            "max_targets_length": float(self.longest),
        }
