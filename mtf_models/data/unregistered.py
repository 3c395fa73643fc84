"""Names that no task is registered under, and that a task can be made of: files and datasets."""

from __future__ import annotations

import dataclasses
import glob
import re
from collections.abc import Mapping
from pathlib import Path

import seqio

from mtf_models.data.files.content import matching, without_compression
from mtf_models.data.files.formats import TEXT, format_of
from mtf_models.data.text_task import DEFAULT_METRICS, TextTask, add_text_task
from mtf_models.data.tfds_datasets import builder_of, is_dataset
from mtf_models.data.vocabularies.named import T5, vocabulary_named

Vocabularies = Mapping[str, seqio.Vocabulary]
"""Feature to vocabulary."""


def is_file(name: str) -> bool:
    """Whether a name is that of a file, or a glob."""
    return Path(name).is_file() or (glob.has_magic(name) and bool(glob.glob(name, recursive=True)))


def add_unregistered(name: str, vocabularies: Vocabularies | None = None) -> str | None:
    """Registers a task for a file or a dataset of TensorFlow Datasets.

    All of a file is its split `train`, and `validation` too. A file of plain text has targets
    alone, others have inputs and targets; a dataset has both if it is supervised.

    Args:
        name: the path of a file, a glob, or the name of a dataset.
        vocabularies: of the features that the task is to have; None for T5's.

    Returns:
        The name of the task, or None if the name is of neither.

    Raises:
        DataError: if the dataset has not these features, or the task's name is taken.
    """
    if is_file(name):
        plain = format_of(matching(name)[0]) is TEXT
        files = {split: (absolute(name),) for split in ("train", "validation")}
        known = vocabularies or default_vocabularies(supervised=not plain)
        spec = TextTask(task_name_of(name), known, files)
    elif is_dataset(name):
        known = vocabularies or default_vocabularies(bool(builder_of(name).info.supervised_keys))
        spec = TextTask(name, known, dataset=name)
    else:
        return None
    metrics = DEFAULT_METRICS if "inputs" in spec.vocabularies else ()
    return add_text_task(dataclasses.replace(spec, metrics=metrics))


def add_without_examples(folder: Path, vocabularies: Vocabularies) -> str:
    """Registers a task that has vocabularies alone, for texts that are in no dataset.

    Args:
        folder: of the model that they are of, after which the task is named.
        vocabularies: of the features that texts may be.

    Returns:
        Its name.
    """
    return add_text_task(TextTask(f"texts_for_{task_name_of(str(folder))}", vocabularies))


def default_vocabularies(supervised: bool = True) -> dict[str, seqio.Vocabulary]:
    """T5's vocabulary for inputs and targets, or for targets alone."""
    return dict.fromkeys(
        ("inputs", "targets") if supervised else ("targets",), vocabulary_named(T5)
    )


def task_name_of(path: str) -> str:
    """The name of a task that reads a file: the file's, without folder and endings."""
    stem = Path(without_compression(path)).name.partition(".")[0]
    return re.sub(r"\W+", "_", stem).strip("_") or "files"


def absolute(path: str) -> str:
    """A path or glob as it is from any folder; one of a remote file is left."""
    return path if "://" in path else str(Path(path).expanduser().absolute())
