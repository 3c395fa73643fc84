"""Training batches: packed, shuffled, mixed, prefetched, and exactly resumable."""

import collections
import concurrent.futures
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import seqio

from mtf_models.data.choosing import by_shares
from mtf_models.data.drawing import LONG_EXAMPLES, Drawn, Draws, Position, seed_of_part
from mtf_models.data.examples import examples_of
from mtf_models.data.mixtures import check_vocabularies, mixing_choice, mixing_shares
from mtf_models.data.objectives import check_objective
from mtf_models.data.packing import Counts, count, fill_rows, group
from mtf_models.data.tasks import get_task_or_mixture, tasks_with_split
from mtf_models.errors import DataError

_PREFETCHED = 8


class _Batch(NamedTuple):
    features: dict[str, np.ndarray]
    position: Position
    counts: Counts


class BatchStream(Iterator[dict[str, np.ndarray]]):
    """An endless iterator of training batches that can be taken up again where it was left.

    Batches are made ahead in a thread of their own. A batch, and a row of it, may hold the end of
    an epoch and the beginning of the next: no example is lost or comes twice in an epoch.

    Args:
        draws: what the batches are made of.
        position: where to begin.
        batch_size: rows in a batch.
        pack: whether several examples may share a row.
        rows: which rows of each batch are given out.
        examples_per_epoch: how many examples the source says an epoch has, or None.

    Attributes:
        lengths: feature name to the length of a row.
        shares: task name to the part of the examples that it is to be.
        counts: of the whole batches taken so far, whichever of their rows are given out.
        examples_per_epoch: as given.
    """

    def __init__(
        self,
        draws: Draws,
        position: Position,
        batch_size: int,
        pack: bool,
        rows: slice,
        examples_per_epoch: int | None,
    ):
        self.lengths, self.shares = draws.lengths, draws.shares
        self.counts = Counts()
        self.examples_per_epoch = examples_per_epoch
        self._position = position
        self._batch_size, self._pack, self._given = batch_size, pack, rows
        self._batches = self._make(draws.since(position), position)
        self._worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="input")
        self._pending = collections.deque(
            self._worker.submit(next, self._batches) for _ in range(_PREFETCHED)
        )

    @property
    def position(self) -> dict[str, Any]:
        """Where the next batch begins, as a small JSON-able mapping.

        Given to `training_batches`, with the same task and seed, the stream goes on with it, on
        any number of processes.
        """
        return self._position.as_json()

    def __next__(self) -> dict[str, np.ndarray]:
        batch = self._pending[0].result()
        self._pending.popleft()
        self._pending.append(self._worker.submit(next, self._batches))
        self._position = batch.position
        self.counts += batch.counts
        return batch.features

    def peek(self) -> Counts:
        """Returns the counts of the next batch without taking it."""
        return self._pending[0].result().counts

    def close(self) -> None:
        """Stops making batches; the stream cannot be used any more."""
        self._worker.shutdown(cancel_futures=True)

    def __enter__(self) -> "BatchStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, drawn: Iterator[Drawn], position: Position) -> Iterator[_Batch]:
        rows: list[list[Drawn]] = []
        for row in self._rows(drawn):
            rows.append(row)
            if len(rows) == self._batch_size:
                position = position.after([one for row in rows for one in row])
                yield self._batch(rows, position)
                rows = []

    def _rows(self, drawn: Iterator[Drawn]) -> Iterator[list[Drawn]]:
        if self._pack:
            return group(drawn, self.lengths, lambda one: one.example)
        return ([one] for one in drawn)

    def _batch(self, rows: list[list[Drawn]], position: Position) -> _Batch:
        examples = [[one.example for one in row] for row in rows]
        features, _ = fill_rows(examples[self._given], self.lengths, segments=self._pack)
        drawn, skipped = collections.Counter(), collections.Counter()
        for one in (one for row in rows for one in row):
            drawn[one.task] += 1
            skipped[one.task] += one.skipped
        counts = count(examples, self.lengths)
        return _Batch(features, position, dataclasses.replace(counts, drawn=drawn, skipped=skipped))


def rows_of_process(batch_size: int, index: int, processes: int) -> slice:
    """Which rows of a batch a process reads where the batch is split over processes.

    Args:
        batch_size: rows in a batch.
        index: of the process, from 0.
        processes: over how many the batch is split; processes that hold the same rows, such as
            those that split a model between them, count as one.

    Returns:
        The rows; those of all processes together are the batch, in order.

    Raises:
        DataError: if the rows are not the same number for each process, or there is no such one.
    """
    if not 0 <= index < processes:
        raise DataError(f"There is no process {index} among {processes}: the first one is 0.")
    if batch_size % processes:
        raise DataError(
            f"A batch of {batch_size} rows does not split over {processes} processes: take a "
            f"multiple of {processes}."
        )
    rows = batch_size // processes
    return slice(index * rows, (index + 1) * rows)


def training_batches(
    task_name: str,
    sequence_length: Mapping[str, int],
    batch_size: int,
    seed: int,
    position: Mapping[str, Any] | None = None,
    pack: bool = True,
    split: str = "train",
    long_examples: str = "cut",
    process: tuple[int, int] = (0, 1),
) -> BatchStream:
    """Opens the training batches of a task or mixture.

    Every process reads all examples and gives out its own rows: so the batch of a step has the
    same examples, in the same rows, on any number of processes.

    Args:
        task_name: its name.
        sequence_length: feature name to the length of a row.
        batch_size: rows in a batch, over all processes.
        seed: of the order of the examples.
        position: where to begin, from `BatchStream.position`; None is the beginning.
        pack: whether several examples may share a row.
        split: the split to read.
        long_examples: what is done with examples that are longer than a row, see `LONG_EXAMPLES`.
        process: index of this process, and how many there are, see `rows_of_process`.

    Returns:
        The batches: feature name to int32 [batch, length]; packed ones with `<name>_segmentation`
        and `<name>_position`, see `fill_rows`.

    Raises:
        DataError: an unknown task or split, lengths that do not fit the task's features, a mixture
            whose vocabularies differ, a batch size below 1 or a seed below 0, or a position of
            another stream.
    """
    if batch_size < 1 or seed < 0:
        raise DataError(
            f"The batch size is {batch_size} and the seed {seed}: they must be at least 1 and 0."
        )
    task = get_task_or_mixture(task_name)
    draws = _draws(task, split, feature_lengths(task, sequence_length), seed, long_examples)
    names = list(draws.shares)
    begun = position is not None
    return BatchStream(
        draws,
        Position.read(position, seed, names) if begun else Position.beginning(seed, names),
        batch_size,
        pack,
        rows_of_process(batch_size, *process),
        None if isinstance(task, seqio.Mixture) else task.num_input_examples(split),
    )


def _draws(
    task: seqio.Task | seqio.Mixture,
    split: str,
    lengths: Mapping[str, int],
    seed: int,
    long_examples: str,
) -> Draws:
    if long_examples not in LONG_EXAMPLES:
        raise DataError(
            f"long_examples is {long_examples!r}; it can be {', '.join(map(repr, LONG_EXAMPLES))}."
        )
    tasks = {part.name: part for part in tasks_with_split(task.name, split)}
    check_vocabularies(task)
    mixed = isinstance(task, seqio.Mixture)
    shares = mixing_shares(task, split) if mixed else {task.name: 1.0}
    choice = mixing_choice(task, split) if mixed else by_shares(shares)
    for name in shares:
        check_objective(tasks[name], lengths)
    parts = {
        name: examples_of(tasks[name], split, lengths, seed_of_part(seed, name) if mixed else seed)
        for name in shares
    }
    return Draws(parts, shares, choice, lengths, long_examples)


def feature_lengths(
    task: seqio.Task | seqio.Mixture, sequence_length: Mapping[str, int]
) -> dict[str, int]:
    """Checks that there is a length for each feature of a task, and for no other.

    Args:
        task: the task or mixture.
        sequence_length: feature name to length; a feature that the task may lack may be left out.

    Returns:
        The lengths in the order of the task's features.

    Raises:
        DataError: names that do not match, or lengths below 1.
    """
    wanted = {name for name, feature in task.output_features.items() if feature.required}
    bad = sorted(name for name, length in sequence_length.items() if length < 1)
    missing, unknown = (
        wanted - set(sequence_length),
        set(sequence_length) - set(task.output_features),
    )
    if missing or unknown or bad:
        raise DataError(
            f"The lengths {dict(sequence_length)} do not fit {task.name}: a length of at least 1"
            f" is needed for {', '.join(sorted(wanted))}, and for nothing else."
        )
    return {n: sequence_length[n] for n in task.output_features if n in sequence_length}
