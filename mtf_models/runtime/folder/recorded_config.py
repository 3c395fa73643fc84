"""The config that a run folder records."""

from __future__ import annotations

from pathlib import Path

from mtf_models import config as gin_config
from mtf_models.checkpoint.hugging_face import convert_first
from mtf_models.checkpoint.locate import readable
from mtf_models.config import Config
from mtf_models.data.vocabularies.places import look_in
from mtf_models.errors import CheckpointError

CONFIG_FILE = "operative_config.gin"


def read_folder_config(folder: Path) -> Config:
    """The config that a run folder records.

    Raises:
        CheckpointError: if it records none.
    """
    return gin_config.parse([recorded_gin(folder)])


def recorded_gin(folder: Path) -> str:
    """The path of the config that a run folder records; its copies of vocabularies are found.

    Raises:
        CheckpointError: if it records none.
    """
    require_run_folder(folder)
    look_in(folder)
    return str(folder / CONFIG_FILE)


def require_run_folder(folder: Path) -> None:
    """Refuses a folder that records no config.

    Raises:
        CheckpointError: if it does not, or cannot be read.
    """
    with readable(folder):
        found = (folder / CONFIG_FILE).is_file()
        cure = convert_first(folder) or " Give the folder that `mtf train --model_dir` wrote."
    if not found:
        raise CheckpointError(f"{folder} is not a run folder: it has no {CONFIG_FILE}.{cure}")
