"""Training batches: packed, shuffled, prefetched, and exactly resumable."""

import collections
import concurrent.futures
import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import seqio

from mtf_models.data.examples import Examples, examples_of
from mtf_models.data.packing import Counts, Example, fill_rows, group
from mtf_models.data.tasks import get_task_or_mixture, tasks_with_split
from mtf_models.errors import DataError

_PREFETCHED = 8


class _Batch(NamedTuple):
    features: dict[str, np.ndarray]
    position: dict[str, int]
    counts: Counts


class BatchStream(Iterator[dict[str, np.ndarray]]):
    """An endless iterator of training batches that can be taken up again where it was left.

    Batches are made ahead in a thread of their own. A batch may hold the end of an epoch and the
    beginning of the next: no example is lost or comes twice in an epoch.

    Attributes:
        position: where the next batch begins, as a small JSON-able mapping. Given to
            `training_batches`, with the same task and seed, the stream goes on with it.
        counts: rows, examples, tokens and trimmed examples of the batches taken so far.
        examples_per_epoch: how many examples the source says an epoch has, or None.
    """

    def __init__(
        self,
        examples: Examples,
        lengths: Mapping[str, int],
        batch_size: int,
        position: dict[str, int],
        pack: bool,
        examples_per_epoch: int | None,
    ):
        self.position = position
        self.counts = Counts()
        self.examples_per_epoch = examples_per_epoch
        self._lengths, self._batch_size, self._pack = lengths, batch_size, pack
        self._batches = self._make(examples, position)
        self._worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="input")
        self._pending = collections.deque(
            self._worker.submit(next, self._batches) for _ in range(_PREFETCHED)
        )

    def __next__(self) -> dict[str, np.ndarray]:
        batch = self._pending[0].result()
        self._pending.popleft()
        self._pending.append(self._worker.submit(next, self._batches))
        self.position = batch.position
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

    def _make(self, examples: Examples, position: dict[str, int]) -> Iterator[_Batch]:
        rows: list[list[Example]] = []
        for row, after in self._rows(examples, position):
            rows.append(row)
            if len(rows) == self._batch_size:
                features, counts = fill_rows(rows, self._lengths, segments=self._pack)
                yield _Batch(features, after, counts)
                rows = []

    def _rows(
        self, examples: Examples, position: dict[str, int]
    ) -> Iterator[tuple[list[Example], dict[str, int]]]:
        """Yields rows without end, each with the position after it."""
        place = position["example"]
        for epoch in itertools.count(position["epoch"]):
            single = examples.epoch(epoch, place)
            for row in group(single, self._lengths) if self._pack else ([one] for one in single):
                place += len(row)
                yield row, {**position, "epoch": epoch, "example": place}
            place = 0


def training_batches(
    task_name: str,
    sequence_length: Mapping[str, int],
    batch_size: int,
    seed: int,
    position: Mapping[str, int] | None = None,
    pack: bool = True,
    split: str = "train",
) -> BatchStream:
    """Opens the training batches of a task or mixture.

    Args:
        task_name: its name.
        sequence_length: feature name to the length of a row.
        batch_size: rows in a batch.
        seed: of the order of the examples.
        position: where to begin, from `BatchStream.position`; None is the beginning.
        pack: whether several examples may share a row.
        split: the split to read.

    Returns:
        The batches: feature name to int32 [batch, length]; packed ones with `<name>_segmentation`
        and `<name>_position`, see `fill_rows`.

    Raises:
        DataError: an unknown task or split, lengths that do not fit the task's features, a batch
            size below 1 or a seed below 0, or a position of another stream.
    """
    if batch_size < 1 or seed < 0:
        raise DataError(
            f"The batch size is {batch_size} and the seed {seed}: they must be at least 1 and 0."
        )
    task = get_task_or_mixture(task_name)
    tasks_with_split(task_name, split)
    lengths = feature_lengths(task, sequence_length)
    count = None if isinstance(task, seqio.Mixture) else task.num_input_examples(split)
    return BatchStream(
        examples_of(task, split, lengths, seed),
        lengths,
        batch_size,
        _checked(position, seed),
        pack,
        count,
    )


def feature_lengths(
    task: seqio.Task | seqio.Mixture, sequence_length: Mapping[str, int]
) -> dict[str, int]:
    """Checks that there is a length for each feature of a task, and for no other.

    Args:
        task: the task or mixture.
        sequence_length: feature name to length.

    Returns:
        The lengths in the order of the task's features.

    Raises:
        DataError: names that do not match, or lengths below 1.
    """
    wanted = set(task.output_features)
    bad = sorted(name for name, length in sequence_length.items() if length < 1)
    if set(sequence_length) != wanted or bad:
        raise DataError(
            f"The lengths {dict(sequence_length)} do not fit {task.name}: a length of at least 1"
            f" is needed for {', '.join(sorted(wanted))}, and for nothing else."
        )
    return {name: sequence_length[name] for name in task.output_features}


def _checked(position: Mapping[str, int] | None, seed: int) -> dict[str, int]:
    if position is None:
        return {"epoch": 0, "example": 0, "seed": seed}
    if set(position) != {"epoch", "example", "seed"} or min(position.values()) < 0:
        raise DataError(f"{dict(position)} is no position of an input stream.")
    if position["seed"] != seed:
        raise DataError(
            f"The position {dict(position)} was recorded with seed {position['seed']}, and the"
            f" seed is now {seed}: go on with --seed={position['seed']}, or in a new folder."
        )
    return dict(position)
