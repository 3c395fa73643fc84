"""Texts to decode or to score, from a file or a split of a task."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import seqio

from mtf_models.data.encoding import encoding_of
from mtf_models.data.files.content import matching
from mtf_models.data.files.table import Row, Table
from mtf_models.data.tasks import tasks_with_split
from mtf_models.data.without_examples import without_examples
from mtf_models.errors import DataError

_OUTPUTS = (
    "input",
    "target",
    "prediction",
    "predictions",
    "score",
    "scores",
    "log_probability",
    "token_ids",
    "token_log_probabilities",
)
"""What rows of an output are given, so that an example may not have it beside its texts."""


@dataclass(frozen=True)
class Record:
    """One example.

    Attributes:
        texts: feature name to text.
        ids: feature name to token ids, ends of sequence included.
        more: what else its file says of it.
    """

    texts: Mapping[str, str]
    ids: Mapping[str, np.ndarray]
    more: Mapping[str, Any] = field(default_factory=dict)


def records_of_file(
    path: str | Path, task: seqio.Task | seqio.Mixture, needed: Sequence[str]
) -> list[Record]:
    """Reads the examples of a file, of several for a glob, one a line.

    TSV and CSV have fields in the order of `needed`, or a first line with their names, and may
    have `targets` after `inputs`; JSON lines and TFRecord have objects with these names; a file
    of any other name has the one text that is needed. A list of numbers is taken as token ids.

    Args:
        path: the file, UTF-8; plain, .gz, .bz2 or .xz.
        task: whose vocabularies encode the texts.
        needed: the features that each line must have.

    Raises:
        DataError: if the file cannot be read or is empty, or lines of it do not fit: they are
            listed.
    """
    optional = ["targets"] if list(needed) == ["inputs"] else []
    sizes = {n: encoding_of(task, n).vocabulary.vocab_size for n in [*needed, *optional]}
    table = Table(matching(path), needed, optional=optional, sizes=sizes, keep_blank=True)
    return [_of_row(task, table[place], needed, path) for place in range(len(table))]


def records_of_split(
    task_name: str,
    split: str,
    lengths: Mapping[str, int],
    needed: Sequence[str],
    num_examples: int | None = None,
) -> list[Record]:
    """Reads a split of a task in its order.

    Args:
        task_name: of a task.
        split: of its dataset.
        lengths: feature name to length, for preprocessors that want it; nothing is cut here.
        needed: the features that each example must have.
        num_examples: at most so many.

    Raises:
        DataError: if there is no such task or split, it is a mixture, it has not these features, or
            the split has no example.
    """
    (task, *others) = tasks_with_split(task_name, split)
    if others:
        names = ", ".join(t.name for t in (task, *others))
        raise DataError(f"{task_name} is a mixture: take one of its tasks {names}.")
    missing = [name for name in needed if name not in task.output_features]
    if missing:
        raise DataError(f"The task {task_name} has no {', '.join(missing)}, which are needed here.")
    known = {name: lengths[name] for name in task.output_features if name in lengths}
    dataset = task.get_dataset(
        known, split, shuffle=False, num_epochs=1, trim_output_features=False
    )
    examples = itertools.islice(dataset.as_numpy_iterator(), num_examples)
    records = [_of_example(task, example, needed) for example in examples]
    if not records:
        raise without_examples(split, [task_name])
    return records


def _of_example(task: seqio.Task, example: Mapping[str, Any], needed: Sequence[str]) -> Record:
    texts = {}
    for name in ("inputs", "targets"):
        text = example.get(f"{name}_pretokenized")
        if text is None and name in task.output_features:
            text = task.output_features[name].vocabulary.decode(example[name].tolist())
        if text is not None:
            texts[name] = text.decode("utf-8") if isinstance(text, bytes) else str(text)
    return Record(texts, {name: np.asarray(example[name], np.int32) for name in needed})


def _of_row(task: Any, row: Row, needed: Sequence[str], path: str | Path) -> Record:
    taken = [name for name in _OUTPUTS if name in row.rest]
    if taken:
        raise DataError(
            f"{path} has {', '.join(taken)}, which are names of what the output says: give others."
        )
    texts, ids = {}, {}
    for name, value in row.values.items():
        vocabulary, end = encoding_of(task, name)
        is_text = isinstance(value, str)
        texts[name] = value if is_text else vocabulary.decode(value.tolist())
        if name in needed:
            known = vocabulary.encode(value) if is_text else value
            ids[name] = np.array([*known, *end], np.int32)
    return Record(texts, ids, row.rest)


def occurrences(records: Sequence[Record], name: str) -> list[int]:
    """For each record, how many before it have the same ids."""
    seen: dict[bytes, itertools.count] = {}
    return [next(seen.setdefault(r.ids[name].tobytes(), itertools.count())) for r in records]
