"""Tokenised training examples, epoch by epoch, each epoch in an order of its own.

The order of an epoch depends on nothing but the data, the seed and the number of the epoch (and
TensorFlow's global seed, where a program sets one), so a place in it is enough to go on from there.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import seqio
import tensorflow as tf

from mtf_models.data.packing import Example
from mtf_models.data.whole_blocks import tokenised_examples, whole_blocks
from mtf_models.data.without_examples import without_examples

MEMORY_BOUND = 2**30  # bytes
_BLOCK = 256
_MORE = 1  # Than fits is kept of an example, by which packing knows that it was cut.
_DETERMINISTIC = (seqio.preprocessors.append_eos, seqio.preprocessors.append_eos_after_trim)


class Examples(Protocol):
    """A source of the examples of any epoch."""

    def epoch(self, number: int, start: int) -> Iterator[Example]:
        """Yields the examples of an epoch from place `start` on: feature name to ids [any]."""


def examples_of(task: seqio.Task, split: str, lengths: Mapping[str, int], seed: int) -> Examples:
    """Opens the examples of a task.

    They are kept in memory, tokenised, if the task says how many there are, all of them at full
    length take at most `MEMORY_BOUND` bytes, and nothing in its preprocessing is drawn anew each
    epoch, that is, nothing but the end of sequence is added after SeqIO's cache placeholder.
    Otherwise each epoch is read and tokenised again.

    Args:
        task: the task.
        split: the split to read.
        lengths: feature name to the length of a row.
        seed: of the order.

    Returns:
        The examples.
    """
    if not _repeats(task):
        return StreamedExamples(task, split, lengths, seed)
    count = task.num_input_examples(split)
    if count is None or 4 * count * sum(lengths.values()) > MEMORY_BOUND:
        return StreamedExamples(task, split, lengths, seed)
    return StoredExamples(task, split, lengths, seed)


class StreamedExamples:
    """Examples that are read and tokenised anew for each epoch.

    To begin in the middle of an epoch, what comes before is read and skipped.
    """

    def __init__(self, task: seqio.Task, split: str, lengths: Mapping[str, int], seed: int):
        self._task, self._split, self._lengths, self._seed = task, split, lengths, seed

    def epoch(self, number: int, start: int) -> Iterator[Example]:
        """Yields the examples of an epoch from place `start` on: feature name to ids [any]."""
        for block in _read(self._task, self._split, self._lengths, self._seed, number, start):
            yield from (block[place] for place in range(len(block)))


class StoredExamples:
    """Examples that are kept in memory once they have been read.

    Epoch 0 is what is read, in the order it is read in, so that it can begin at once; a later
    epoch is a permutation of epoch 0.
    """

    def __init__(self, task: seqio.Task, split: str, lengths: Mapping[str, int], seed: int):
        self._seed = seed
        self._unread = _read(task, split, lengths, seed, epoch=0, start=0)
        self._blocks: list[_Block] = []

    def epoch(self, number: int, start: int) -> Iterator[Example]:
        """Yields the examples of an epoch from place `start` on: feature name to ids [any]."""
        if number == 0:
            yield from self._from(start)
            return
        self._blocks.extend(self._unread)
        count = sum(len(block) for block in self._blocks)
        # Raw bits, as NumPy keeps their stream, but not that of its permutations, for ever.
        bits = np.random.PCG64([self._seed, number]).random_raw(count)
        for place in np.argsort(bits, kind="stable")[start:]:
            yield self._blocks[place // _BLOCK][place % _BLOCK]

    def _from(self, start: int) -> Iterator[Example]:
        index, offset = divmod(start, _BLOCK)
        while True:
            while index >= len(self._blocks):
                block = next(self._unread, None)
                if block is None:
                    return
                self._blocks.append(block)
            block = self._blocks[index]
            yield from (block[place] for place in range(offset, len(block)))
            index, offset = index + 1, 0


class _Block:
    """Some examples as padded arrays."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = {name: (array, _sizes(array)) for name, array in arrays.items()}

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values()))[0])

    def __getitem__(self, place: int) -> Example:
        return {name: array[place, : sizes[place]] for name, (array, sizes) in self._arrays.items()}


def _sizes(array: np.ndarray) -> np.ndarray:
    """Number of ids in each row, up to the last one that is not padding."""
    columns = np.arange(1, array.shape[1] + 1)
    return np.max(np.where(array != 0, columns, 0), axis=1, initial=0)


def _repeats(task: seqio.Task) -> bool:
    steps = list(task.preprocessors)
    placeholders = [isinstance(step, seqio.CacheDatasetPlaceholder) for step in steps]
    if True not in placeholders:
        return False
    return all(step in _DETERMINISTIC for step in steps[placeholders.index(True) + 1 :])


def _read(
    task: seqio.Task, split: str, lengths: Mapping[str, int], seed: int, epoch: int, start: int
) -> Iterator[_Block]:
    drawn = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]) >> 1
    longest = {name: length + _MORE for name, length in lengths.items()}
    blocks = whole_blocks(task, split, longest, drawn, start, _BLOCK)
    if blocks is None:
        blocks = _joined_blocks(task, split, lengths, drawn, start)
    empty = True
    for arrays in blocks.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        empty = False
        yield _Block(arrays)
    if empty and start == 0:
        raise without_examples(split, [task.name])


def _joined_blocks(
    task: seqio.Task, split: str, lengths: Mapping[str, int], seed: int, start: int
) -> tf.data.Dataset:
    """Blocks of the examples that a task's steps make one by one."""
    dataset = tokenised_examples(task, split, _BLOCK)
    if dataset is None:
        dataset = task.get_dataset(
            lengths, split, shuffle=True, seed=seed, num_epochs=1, trim_output_features=False
        )
    else:
        dataset = task.preprocess_postcache(dataset, lengths, seed)
        dataset = dataset.shuffle(task.shuffle_buffer_size, seed=seed)

    def cut(example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {name: example[name][: length + _MORE] for name, length in lengths.items()}

    return dataset.skip(start).map(cut).padded_batch(_BLOCK)
