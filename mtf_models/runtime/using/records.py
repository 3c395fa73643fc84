"""The examples that a command decodes or scores, and the task whose vocabularies they use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mtf_models.errors import ConfigError
from mtf_models.runtime.folder.model_folder import model_folder
from mtf_models.runtime.folder.vocabulary_record import task_for_use
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import ExampleOptions, ExportOptions, ServeOptions
from mtf_models.runtime.using.evaluation import SPLIT

if TYPE_CHECKING:
    from mtf_models.data.records import Record


def check_source(options: ExampleOptions) -> None:
    """Refuses what can be refused before a model is loaded.

    Raises:
        ConfigError: if not exactly one source is given.
        DataError: if the file cannot be read.
    """
    from mtf_models.data.files.content import content_of, matching

    if (options.input is None) == (options.task is None):
        raise ConfigError("Give either --input=FILE or --task=NAME.")
    alone = [n for n in ("split", "num_examples") if getattr(options, n) is not None]
    if options.input is not None and alone:
        raise ConfigError(f"--{alone[0]} is of a --task, and --input={options.input} is a file.")
    if options.input is not None:
        for path in matching(options.input):
            content_of(path)


def read_records(
    model: Model, options: ExampleOptions, needed: Sequence[str]
) -> tuple[Any, list[Record]]:
    """The task and the records, called under the model's config.

    Args:
        model: its config names the task, unless the options do.
        options: of the command.
        needed: the features that each record must have.

    Raises:
        DataError: if records cannot be read or do not fit.
    """
    from mtf_models.data.records import records_of_file, records_of_split

    task = task_of(model, options)
    if options.input is not None:
        return task, records_of_file(options.input, task, needed)
    lengths = model.settings.sequence_length
    split = options.split or SPLIT
    return task, records_of_split(task.name, split, lengths, needed, options.num_examples)


def task_of(model: Model, options: ExampleOptions | ExportOptions | ServeOptions) -> Any:
    """The task whose vocabularies are used, called under the model's config.

    Args:
        model: its config names the task, unless the options do.
        options: of the command.

    Raises:
        DataError: if there is no such task, or its vocabularies are not those of the model.
    """
    from mtf_models.data.tasks import get_task_or_mixture

    folder = model_folder(options.model_dir)
    return get_task_or_mixture(task_for_use(folder, model.config, options.task))
