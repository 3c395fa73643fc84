"""Texts to decode or to score, from a file or a split of a task."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import seqio

from mtf_models.data.encoding import encoding_of
from mtf_models.data.tasks import tasks_with_split
from mtf_models.data.text_files import lines
from mtf_models.errors import DataError

_SHOWN = 5
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
    """Reads a file with an example a line.

    `.tsv` has fields in the order of `needed`, and may have `targets` after `inputs`; `.jsonl` has
    objects with these names; any other file has the one text that is needed.

    Args:
        path: the file, UTF-8.
        task: whose vocabularies encode the texts.
        needed: the features that each line must have.

    Raises:
        DataError: if the file cannot be read or is empty, or lines of it do not fit: they are
            listed.
    """
    reader = {".tsv": _of_tsv, ".jsonl": _of_json}.get(Path(path).suffix, _of_text)
    read, faults = [], []
    for number, line in enumerate(lines(path), start=1):
        try:
            read.append(reader(line, needed))
        except DataError as error:
            faults.append(f"{path}:{number}: {error}")
    if faults:
        more = f"\n  and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise DataError("\n  ".join(["Lines that do not fit:", *faults[:_SHOWN]]) + more)
    if not read:
        raise DataError(f"{path} is empty: it has no line.")
    return [
        Record(
            {name: fields[name] for name in fields if name in ("inputs", "targets")},
            {name: _encoded(task, name, fields[name]) for name in needed},
            {name: value for name, value in fields.items() if name not in ("inputs", "targets")},
        )
        for fields in read
    ]


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
        DataError: if there is no such task or split, it is a mixture, or it has not these features.
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
    return list(
        itertools.islice(
            (_of_example(task, e, needed) for e in dataset.as_numpy_iterator()), num_examples
        )
    )


def _of_example(task: seqio.Task, example: Mapping[str, Any], needed: Sequence[str]) -> Record:
    texts = {}
    for name in ("inputs", "targets"):
        text = example.get(f"{name}_pretokenized")
        if text is None and name in task.output_features:
            text = task.output_features[name].vocabulary.decode(example[name].tolist())
        if text is not None:
            texts[name] = text.decode("utf-8") if isinstance(text, bytes) else str(text)
    return Record(texts, {name: np.asarray(example[name], np.int32) for name in needed})


def _encoded(task: seqio.Task | seqio.Mixture, name: str, text: str) -> np.ndarray:
    vocabulary, end = encoding_of(task, name)
    return np.array([*vocabulary.encode(text), *end], np.int32)


def _of_text(line: str, needed: Sequence[str]) -> dict[str, Any]:
    if len(needed) > 1:
        raise DataError(
            f"a line of text has one field, and {' and '.join(needed)} are needed; give a file "
            "that ends in .tsv or .jsonl"
        )
    return {needed[0]: line}


def _of_tsv(line: str, needed: Sequence[str]) -> dict[str, Any]:
    fields, names = line.split("\t"), list(needed)
    if len(fields) > len(names) and names == ["inputs"]:
        names.append("targets")
    if len(fields) != len(names):
        raise DataError(f"expected {len(needed)} fields, found {len(fields)}: {line[:60]!r}")
    return dict(zip(names, fields, strict=True))


def _of_json(line: str, needed: Sequence[str]) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise DataError(f"not JSON ({error}): {line[:60]!r}") from None
    if not isinstance(found, dict):
        raise DataError(f"expected an object, found {line[:60]!r}")
    for name in needed:
        if not isinstance(found.get(name), str):
            raise DataError(f"expected a text under {name!r}, found {found.get(name)!r}")
    taken = [name for name in _OUTPUTS if name in found]
    if taken:
        raise DataError(f"the output has its own {', '.join(taken)}: give another name")
    return found


def occurrences(records: Sequence[Record], name: str) -> list[int]:
    """For each record, how many before it have the same ids."""
    seen: dict[bytes, itertools.count] = {}
    return [next(seen.setdefault(r.ids[name].tobytes(), itertools.count())) for r in records]
