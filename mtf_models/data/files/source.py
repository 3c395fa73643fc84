"""A SeqIO source over files of examples: deterministic, shardable, and shuffled as a whole."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from mtf_models.data.files.columns import Columns
from mtf_models.data.files.content import matching
from mtf_models.data.files.table import Table
from mtf_models.errors import DataError

_BLOCK = 256


class FileSource(seqio.DataSource):
    """The rows of files as a SeqIO source.

    Files are read when the first example of their split, or their number, is asked for. Row i of
    a split, in the order of its files by name, is always example i: the order of a shuffled
    dataset depends on seed and number of rows alone, and shard k of n has every n-th of it.

    Args:
        files: split to paths or globs.
        features: what each row has.
        columns: see `columns.mapped`.
        sizes: feature to the size of its vocabulary.
        on_bad: see `Table`.
    """

    def __init__(
        self,
        files: Mapping[str, str | Sequence[str]],
        features: Sequence[str],
        columns: Columns | None = None,
        sizes: Mapping[str, int] | None = None,
        on_bad: str = "error",
    ):
        super().__init__(splits=tuple(files), performs_internal_shuffling=True)
        self._files, self._features, self._columns = dict(files), tuple(features), columns
        self._sizes, self._on_bad = sizes, on_bad
        self.table = functools.cache(self._table)

    @property
    def supports_arbitrary_sharding(self) -> bool:
        """True: rows are dealt out one by one."""
        return True

    def list_shards(self, split: str) -> Sequence[str]:
        """The files of a split."""
        return matching(self._files[split])

    def num_input_examples(self, split: str) -> int:
        """How many rows a split has; reads its files."""
        return len(self.table(split))

    def get_dataset(
        self,
        split: str = "train",
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: seqio.ShardInfo | None = None,
        **_: Any,
    ) -> tf.data.Dataset:
        """The rows of a split: feature to a text, or to token ids, int32 [any].

        Args:
            split: its name.
            shuffle: whether in a random order.
            seed: of that order; None for one that is new each time.
            shard_info: which part of the rows.
        """
        table = self.table(split)
        order = np.arange(len(table))
        if shuffle:
            entropy = None if seed is None else [int(seed)]
            # Raw bits, as NumPy keeps their stream, but not that of its permutations, for ever.
            order = np.argsort(np.random.PCG64(entropy).random_raw(len(table)), kind="stable")
        if shard_info is not None:
            order = order[shard_info.index :: shard_info.num_shards]
        blocks = tf.data.Dataset.from_tensor_slices(order).batch(_BLOCK)
        read = functools.partial(_block, table, self._features)
        return blocks.map(read).unbatch().map(_as_tensors)

    def _table(self, split: str) -> Table:
        if split not in self._files:
            raise DataError(f"There is no split {split!r}; there are {', '.join(self._files)}.")
        return Table(
            matching(self._files[split]),
            self._features,
            self._columns,
            sizes=self._sizes,
            on_bad=self._on_bad,
        )


def _block(table: Table, features: Sequence[str], places: tf.Tensor) -> dict[str, Any]:
    """Some rows at once: texts, or ragged token ids."""
    kinds = [table.kinds[feature] for feature in features]

    def rows(places: np.ndarray) -> list[np.ndarray]:
        found = [table[place].values for place in places.tolist()]
        arrays: list[np.ndarray] = []
        for feature, kind in zip(features, kinds, strict=True):
            values = [values[feature] for values in found]
            if kind == "text":
                arrays.append(np.array([value.encode() for value in values], object))
            else:
                arrays.append(np.concatenate(values))
                arrays.append(np.array([len(value) for value in values], np.int64))
        return arrays

    types = [t for kind in kinds for t in ([tf.string] if kind == "text" else [tf.int32, tf.int64])]
    flat = iter(tf.numpy_function(rows, [places], types))
    block: dict[str, Any] = {}
    for feature, kind in zip(features, kinds, strict=True):
        values = tf.ensure_shape(next(flat), [None])
        if kind == "ids":
            sizes = tf.ensure_shape(next(flat), [None])
            values = tf.RaggedTensor.from_row_lengths(values, sizes, validate=False)
        block[feature] = values
    return block


def _as_tensors(example: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    # A row of a ragged tensor is a ragged tensor that is not ragged.
    return {n: tf.convert_to_tensor(getattr(v, "values", v)) for n, v in example.items()}
