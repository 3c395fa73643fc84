"""The task that gin describes: of files or of a dataset, with a vocabulary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mtf_models.config import Config
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.runtime.options import TextTaskOptions

_GIN = "text_task"

Files = str | Sequence[str] | None


@configurable(module="mtf_models.data", name=_GIN)
def text_task(
    name: str | None = None,
    train_file: Files = None,
    eval_file: Files = None,
    test_file: Files = None,
    dataset: str | None = None,
    features: Sequence[str] = ("inputs", "targets"),
    columns: Mapping[str, str | int] | None = None,
    vocabulary: str | Sequence[str] = "t5",
    extra_ids: int | None = None,
    metrics: Sequence[str] = ("sequence_accuracy",),
    on_bad: str = "error",
) -> str | None:
    """Registers a task, if `name` is bound.

    Args:
        name: of the task.
        train_file: paths or globs of its split `train`.
        eval_file: of its split `validation`.
        test_file: of its split `test`.
        dataset: instead of files, a dataset of TensorFlow Datasets.
        features: what an example has: inputs and targets, or targets.
        columns: feature to column or field.
        vocabulary: of all features, or one for each; see `data.vocabularies.named`.
        extra_ids: sentinels at the end of each vocabulary; None for 100 of T5's, none of others.
        metrics: of `data.text_task.METRICS`.
        on_bad: "error" or "skip", for lines that do not fit.

    Returns:
        The name.

    Raises:
        DataError: if a vocabulary, the columns or the name cannot be used.
    """
    if name is None:
        return None
    from mtf_models.data.text_task import TextTask, add_text_task
    from mtf_models.data.vocabularies.named import vocabulary_named

    files = {"train": train_file, "validation": eval_file, "test": test_file}
    given = {s: (f,) if isinstance(f, str) else tuple(f) for s, f in files.items() if f}
    if bool(given) == (dataset is not None):
        raise ConfigError(f"{_GIN} {name} is either of files (train_file, ...) or of a dataset.")
    names = [vocabulary] if isinstance(vocabulary, str) else list(vocabulary)
    if len(names) == 1:
        names *= len(features)
    if len(names) != len(features):
        raise ConfigError(
            f"{len(names)} vocabularies are given for {' and '.join(features)}: give one, or one "
            "for each."
        )
    vocabularies = {f: vocabulary_named(n, extra_ids) for f, n in zip(features, names, strict=True)}
    return add_text_task(
        TextTask(name, vocabularies, given, dataset, columns, tuple(metrics), on_bad)
    )


def register_text_task(config: Config) -> None:
    """Registers the task that a config describes, if it does."""
    if config.query(f"{_GIN}.name") is not None:
        with config.active():
            text_task()


def described(options: TextTaskOptions, features: Sequence[str]) -> dict[str, Any] | None:
    """The task that flags describe.

    Args:
        options: of the command.
        features: what its examples are to have.

    Returns:
        What to call `text_task` with, or None if the flags describe none.

    Raises:
        ConfigError: if the flags do not go together.
        DataError: if columns or vocabularies cannot be read.
    """
    from mtf_models.data.tasks import get_task_or_mixture, is_known
    from mtf_models.data.tfds_datasets import is_dataset
    from mtf_models.data.unregistered import absolute, is_file, task_name_of

    values: dict[str, Any] = {}
    task = options.task
    if options.train_file:
        if task is not None:
            raise ConfigError("Give either --train_file=FILE or --task=NAME.")
        values["name"] = task_name_of(options.train_file[0])
        values["train_file"] = [absolute(path) for path in options.train_file]
    elif task is not None and not is_known(task):
        if is_file(task):
            values |= {"name": task_name_of(task), "train_file": absolute(task)}
        elif not is_dataset(task):
            get_task_or_mixture(task)  # It says that there is none, and what is near.
        else:
            values |= {"name": re.sub(r"\W+", "_", task), "dataset": task}
    else:
        _refuse_alone(options)
        return None
    if options.eval_file:
        values["eval_file"] = [absolute(path) for path in options.eval_file]
    values["features"] = list(features)
    values["columns"] = columns_of(options.columns)
    values["vocabulary"] = [_path(v) for v in options.vocab.split(",")] if options.vocab else None
    values["extra_ids"] = options.extra_ids
    values["metrics"] = options.metrics.split(",") if options.metrics else None
    values["on_bad"] = options.on_bad
    return {key: value for key, value in values.items() if value is not None}


def text_task_bindings(values: Mapping[str, Any]) -> str:
    """Gin text of what `described` found."""
    return "\n".join(f"{_GIN}.{key} = {value!r}" for key, value in values.items())


def columns_of(text: str | None) -> dict[str, str | int] | None:
    """Reads `inputs=question,targets=2`: feature to the name or number of its column.

    Raises:
        ConfigError: if it is written in another way.
    """
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(feature.strip() and column.strip() for feature, _, column in pairs):
        raise ConfigError(
            f"--columns={text} cannot be read: write --columns=inputs=NAME,targets=NAME, with "
            "names of the file's first line (or of fields), or numbers from 1."
        )
    found = {feature.strip(): column.strip() for feature, _, column in pairs}
    return {f: int(column) if column.isdecimal() else column for f, column in found.items()}


def _refuse_alone(options: TextTaskOptions) -> None:
    names = ("eval_file", "columns", "vocab", "extra_ids", "metrics", "on_bad")
    alone = [f"--{name}" for name in names if getattr(options, name)]
    if alone:
        raise ConfigError(
            f"{', '.join(alone)} belong to a task of files: give --train_file=FILE, or --task=FILE."
        )


def _path(name: str) -> str:
    """The name of a vocabulary, as it is from any folder."""
    from mtf_models.data.unregistered import absolute

    return absolute(name) if "." in name else name
