"""The vocabularies of a run: recorded in its folder, with copies of their files, and compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mtf_models.config import Config
from mtf_models.data.vocabularies.places import COPIES
from mtf_models.errors import CheckpointError, DataError
from mtf_models.runtime.bindings.task_modules import query_task
from mtf_models.runtime.whole_file import write_text

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
    name = _task_of(config)
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


def check(folder: Path, name: str | None, cure: str) -> None:
    """Refuses a task whose vocabularies are not those of a run.

    Args:
        folder: of the run; one that records none is not checked.
        name: of the task; None is not checked.
        cure: what to do, for the message.

    Raises:
        DataError: saying what differs.
    """
    file = folder / RECORD_FILE
    if name is None or not file.exists():
        return
    from mtf_models.data.tasks import get_task_or_mixture
    from mtf_models.data.vocabularies.fingerprint import differences, fingerprints

    recorded = json.loads(file.read_text("utf-8"))
    if lines := differences(recorded, fingerprints(get_task_or_mixture(name))):
        raise DataError(
            f"The vocabulary of {name} is not the one that {folder} was trained with:\n  "
            + "\n  ".join(lines)
            + f"\n{cure}"
        )


def check_config(folder: Path, config: Config, cure: str) -> None:
    """Refuses a config whose task has other vocabularies than a run, see `check`."""
    check(folder, _task_of(config), cure)


def task_for_use(folder: Path, config: Config, name: str) -> str:
    """The task that a trained model is to read.

    Args:
        folder: of its run.
        config: of its run.
        name: of a task or mixture; a file or dataset gets the vocabularies of the config's task.

    Returns:
        The name that the task is registered under.

    Raises:
        DataError: if there is no such task, or its vocabularies are not those of the run.
    """
    from mtf_models.data.tasks import get_task_or_mixture, is_known
    from mtf_models.data.unregistered import add_unregistered

    own = _task_of(config)
    if own is not None and not is_known(name):
        features = get_task_or_mixture(own).output_features
        vocabularies = {feature: spec.vocabulary for feature, spec in features.items()}
        name = add_unregistered(name, vocabularies) or name
    check(folder, name, "Give a task with the vocabulary of the run.")
    return name


def _task_of(config: Config) -> str | None:
    named = (query_task(config, function) for function in _FUNCTIONS)
    return next((name for name in named if name is not None), None)
