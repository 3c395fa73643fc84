"""Datasets of TensorFlow Datasets: whether they are here, and what to do if not."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import requests
import seqio
import tensorflow_datasets as tfds

from mtf_models.data.prepared import PreparedSource, chosen_dir
from mtf_models.errors import DataError

_PUBLIC = "gs://tfds-data/datasets"
_STORAGE = "https://storage.googleapis.com"
_PATIENCE = 10  # seconds, for the first answer of a host
_SHOWN = 3

_log = logging.getLogger("mtf_models")


class _MissingError(Exception):
    """A dataset that is not there: its name, its place, why it cannot be made, and of what."""

    def __init__(self, name: str, path: Any, reason: str, urls: Sequence[str] = ()):
        self.name = name
        more = f" and {len(urls) - _SHOWN} more" if len(urls) > _SHOWN else ""
        made = f"; it is made of {', '.join(urls[:_SHOWN])}{more}" if urls else ""
        super().__init__(f"{name}, which belongs in {path}: {reason.rstrip('.')}{made}")


def is_dataset(name: str) -> bool:
    """Whether TensorFlow Datasets has a builder for `name[/config][:version]`, or files of it."""
    base = name.partition("/")[0].partition(":")[0]
    if not base.isidentifier():
        return False
    known = tfds.list_builders(with_community_datasets=False)
    return base in known or (tfds_dir() / base).is_dir()


def tfds_dir() -> Path:
    """Where TensorFlow Datasets looks: the chosen folder, else $TFDS_DATA_DIR, else its own."""
    folder = os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    return chosen_dir() or Path(folder).expanduser()


def builder_of(name: str, folder: str | None = None) -> tfds.core.DatasetBuilder:
    """The builder of a dataset, prepared or not.

    Args:
        name: of the dataset, with its config and version as far as they matter.
        folder: where to look; None for `tfds_dir`.

    Raises:
        DataError: if it is not there and TensorFlow Datasets cannot generate this one.
    """
    try:
        return _builder(name, folder)
    except _MissingError as error:
        raise DataError(_advice([error])) from error


def require(tasks: Sequence[seqio.Task]) -> None:
    """Makes sure that the data of tasks are there; datasets that can be made here are made.

    Args:
        tasks: those that do not read TensorFlow Datasets are passed over.

    Raises:
        DataError: for the datasets that are not there, what to fetch and where to put it; or a
            vocabulary cannot be read.
    """
    missing: list[_MissingError] = []
    silent: set[str] = set()
    for name, folder in dict.fromkeys(one for task in tasks for one in datasets_of(task)):
        try:
            _prepare(name, folder, silent)
        except _MissingError as error:
            missing.append(error)
    if missing:
        raise DataError(_advice(missing))
    for task in tasks:
        _require_vocabularies(task)


def _require_vocabularies(task: seqio.Task) -> None:
    files = {_file(feature.vocabulary) for feature in task.output_features.values()}
    remote = sorted(file for file in files if file.startswith("gs://"))
    # TensorFlow would try for minutes.
    if remote and not _answers(_STORAGE):
        raise DataError(
            f"The task {task.name} has the vocabulary {' and '.join(remote)}, and {_STORAGE} does "
            "not answer. Fetch it where there is a network, and register the task under another "
            "name with the copy (docs/add_a_task.md)."
        )


def _file(vocabulary: seqio.Vocabulary) -> str:
    return getattr(vocabulary, "sentencepiece_model_file", "")


def datasets_of(task: seqio.Task) -> Iterator[tuple[str, str | None]]:
    """The datasets that a task reads, without those of this package, which prepare themselves.

    Yields:
        Name, and the folder where it is to be looked for, or None for `tfds_dir`.
    """
    if not isinstance(task.source, seqio.TfdsDataSource) or isinstance(task.source, PreparedSource):
        return
    loader = task.source.tfds_dataset
    if loader.tfds_splits:
        yield from ((split.dataset, split.data_dir) for split in loader.tfds_splits.values())
    elif loader.name:
        yield loader.name, loader.data_dir


def _builder(name: str, folder: str | None) -> tfds.core.DatasetBuilder:
    where = Path(folder) if folder else tfds_dir()
    try:
        return tfds.builder(name, data_dir=where)
    except Exception as error:  # Of many kinds, by what is wrong with the name.
        raise _MissingError(name, where / name.replace(":", "/"), _first_line(error)) from error


def _prepare(name: str, folder: str | None, silent: set[str]) -> None:
    """Prepares a dataset, unless the host that it is made from is found among the silent ones."""
    builder = _builder(name, folder)
    if builder.data_path.exists():
        return
    urls = list(getattr(builder, "url_infos", None) or {})
    host = urls[0].split("/")[2] if urls else ""
    if urls and (host in silent or not _answers(urls[0])):
        # TensorFlow Datasets would try for minutes.
        silent.add(host)
        raise _MissingError(name, builder.data_path, f"{urls[0]} does not answer", urls)
    _log.info("Preparing %s in %s.", name, builder.data_path)
    try:
        builder.download_and_prepare()
    except Exception as error:  # Whatever the builder of a dataset may raise.
        raise _MissingError(name, builder.data_path, _first_line(error), urls) from error


def _answers(url: str) -> bool:
    try:
        requests.head(url, timeout=_PATIENCE)
    except requests.RequestException:
        return False
    return True


def _advice(missing: Sequence[_MissingError]) -> str:
    names = [error.name.partition(":")[0] for error in missing]
    faults = "\n  ".join(["Data are not here, and cannot be made here:", *map(str, missing)])
    return (
        f"{faults}\nCopy the folder to that place from a machine that has it, or from {_PUBLIC}, "
        "which has the same paths. Or, where there is a network, run "
        f"`tfds build {names[0]} --data_dir=DIR`, and give --data_dir=DIR here."
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
