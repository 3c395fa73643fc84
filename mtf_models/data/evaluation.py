"""Evaluation and prediction batches: one example to a row, in order, the last batch padded."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import seqio

from mtf_models.data.features import pad_batch
from mtf_models.data.objectives import check_objective
from mtf_models.data.packing import fill_rows
from mtf_models.data.sources import feature_lengths
from mtf_models.data.tasks import tasks_with_split
from mtf_models.data.without_examples import without_examples
from mtf_models.errors import DataError

_SEED = 12345  # So that an objective makes the same gaps each time; the original's.


class EvaluationBatch(NamedTuple):
    """Examples in order, one to a row.

    Attributes:
        features: feature name to int32 [batch, length], zeros below the last example.
        examples: the examples themselves, as many as there are real rows, with all that their
            dataset says of them, untrimmed.
        trimmed: feature name to how many examples were cut to the length.
    """

    features: dict[str, np.ndarray]
    examples: Sequence[Mapping[str, Any]]
    trimmed: Mapping[str, int]

    @property
    def rows(self) -> int:
        """How many rows are real."""
        return len(self.examples)


def evaluation_batches(
    task_name: str,
    sequence_length: Mapping[str, int],
    batch_size: int,
    split: str = "validation",
    num_examples: int | None = None,
) -> Iterator[EvaluationBatch]:
    """Reads a split of a task from its beginning, in the order of the dataset.

    Args:
        task_name: the name of a task; a mixture is evaluated task by task, see
            `tasks_with_split`.
        sequence_length: feature name to length; longer features are cut at the end.
        batch_size: rows in a batch.
        split: the split to read.
        num_examples: how many examples to read; None is all.

    Returns:
        The batches.

    Raises:
        DataError: an unknown task or split, or lengths that do not fit the task's features.
    """
    tasks = tasks_with_split(task_name, split)
    if [task.name for task in tasks] != [task_name]:
        names = ", ".join(task.name for task in tasks)
        raise DataError(f"{task_name} is a mixture: evaluate its tasks {names} one by one.")
    lengths = feature_lengths(tasks[0], sequence_length)
    check_objective(tasks[0], lengths)
    dataset = tasks[0].get_dataset(
        lengths,
        split,
        shuffle=False,
        seed=_SEED,
        num_epochs=1,
        trim_output_features=False,
    )
    examples = itertools.islice(dataset.as_numpy_iterator(), num_examples)
    return batches_of(examples, lengths, batch_size)


def require_examples(tasks: Sequence[seqio.Task], split: str) -> None:
    """Refuses tasks of which there is nothing to evaluate.

    Args:
        tasks: that have the split.
        split: the split.

    Raises:
        DataError: listing those whose source has no example of it.
    """
    empty = [task.name for task in tasks if _is_empty(task, split)]
    if empty:
        raise without_examples(split, empty)


def _is_empty(task: seqio.Task, split: str) -> bool:
    count = task.num_input_examples(split)
    if count is None:
        first = task.source.get_dataset(split=split, shuffle=False).take(1)
        return not list(first.as_numpy_iterator())
    return count == 0


def decode_texts(task: seqio.Task | seqio.Mixture, ids: np.ndarray) -> list[str]:
    """Turns decoded ids into texts with the vocabulary of the task's targets.

    Args:
        task: the task or mixture.
        ids: [rows, length], read up to the first end of sequence.

    Returns:
        One text for each row.
    """
    vocabulary = task.output_features["targets"].vocabulary
    return [vocabulary.decode(np.trim_zeros(row, "b").tolist()) for row in np.asarray(ids)]


def batches_of(
    examples: Iterator[Mapping[str, Any]], lengths: Mapping[str, int], batch_size: int
) -> Iterator[EvaluationBatch]:
    """Puts examples into batches, one to a row, in order.

    Args:
        examples: with an array of ids for each feature.
        lengths: feature name to the length of a row; longer examples are cut at the end.
        batch_size: rows in a batch.

    Yields:
        The batches.
    """
    while chunk := list(itertools.islice(examples, batch_size)):
        features, counts = fill_rows([[example] for example in chunk], lengths, segments=False)
        features, _ = pad_batch(features, batch_size)
        yield EvaluationBatch(features, chunk, counts.trimmed)
