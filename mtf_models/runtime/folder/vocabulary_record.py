"""The vocabularies of a run: recorded in its folder, with copies of their files, and compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_models.config import Config
from mtf_models.data.vocabularies.places import COPIES
from mtf_models.errors import CheckpointError, DataError
from mtf_models.runtime.bindings.task_modules import query_task
from mtf_models.runtime.whole_file import write_text

if TYPE_CHECKING:
    import seqio

    from mtf_models.runtime.folder.model_folder import ModelFolder

RECORD_FILE = "vocabulary.json"

_FUNCTIONS = ("mesh_train_dataset_fn", "get_vocabulary", "mesh_eval_dataset_fn")


def record(folder: Path, config: Config) -> None:
    """Writes what the vocabularies of a config's task are, and copies their files.

    Args:
        folder: of the run.
        config: of the run; without a task there is nothing to record.

    Raises:
        CheckpointError: if they cannot be written.
    """
    name = task_of(config)
    if name is None:
        return
    from mtf_models.data.tasks import get_task_or_mixture
    from mtf_models.data.vocabularies.fingerprint import fingerprints
    from mtf_models.datasets import vocabs

    found = fingerprints(get_task_or_mixture(name))
    text = json.dumps(found, indent=2) + "\n"
    write_text(
        folder / RECORD_FILE, text, CheckpointError, "Make room, or take another --model_dir."
    )
    shipped = Path(vocabs.__file__).parent
    for file in {Path(one["file"]) for one in found.values() if "file" in one}:
        copy = folder / COPIES / file.name
        if file.parent not in (shipped, copy.parent):
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)


def check(folder: ModelFolder, name: str | None, cure: str) -> None:
    """Refuses a task whose vocabularies are not those that a model was trained with.

    Args:
        folder: of the model; one that does not know them is not checked.
        name: of the task; None is not checked.
        cure: what to do, for the message.

    Raises:
        DataError: saying what differs.
    """
    recorded = None if name is None else folder.fingerprints()
    if recorded is None:
        return
    from mtf_models.data.tasks import get_task_or_mixture
    from mtf_models.data.vocabularies.fingerprint import differences, fingerprints

    if lines := differences(recorded, fingerprints(get_task_or_mixture(name))):
        raise DataError(
            f"The vocabulary of {name} is not the one that {folder.path} was trained with:\n  "
            + "\n  ".join(lines)
            + f"\n{cure}"
        )


def check_config(folder: ModelFolder, config: Config, cure: str) -> None:
    """Refuses a config whose task has other vocabularies than a model, see `check`."""
    check(folder, task_of(config), cure)


def task_for_use(folder: ModelFolder, config: Config, name: str | None) -> str:
    """The task that a trained model is to read.

    Args:
        folder: of the model.
        config: of the model.
        name: of a task or mixture, or None for the model's; a file or dataset gets the vocabularies
            of the model.

    Returns:
        The name that the task is registered under.

    Raises:
        DataError: if there is no such task, or its vocabularies are not those of the model.
    """
    from mtf_models.data.tasks import is_known
    from mtf_models.data.unregistered import add_unregistered

    name = name or folder.task(config)
    if not is_known(name):
        name = add_unregistered(name, folder.vocabularies(config)) or name
    check(folder, name, "Give a task with the vocabulary of the model.")
    return name


def vocabularies_of(config: Config) -> Mapping[str, seqio.Vocabulary] | None:
    """Feature to the vocabulary of a config's task; None without a task."""
    name = task_of(config)
    if name is None:
        return None
    from mtf_models.data.tasks import get_task_or_mixture

    features = get_task_or_mixture(name).output_features
    return {feature: spec.vocabulary for feature, spec in features.items()}


def task_of(config: Config) -> str | None:
    """The task that a config trains on, takes its vocabulary from or evaluates; None for none."""
    named = (query_task(config, function) for function in _FUNCTIONS)
    return next((name for name in named if name is not None), None)
