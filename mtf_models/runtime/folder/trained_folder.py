"""A run folder, ours or the original's, as what holds a model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_models.checkpoint import Reader, locate
from mtf_models.checkpoint.locate import folder_of
from mtf_models.checkpoint.names import files_of
from mtf_models.config import Config
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.folder.checkpoint_steps import CheckpointSteps, steps_of
from mtf_models.runtime.folder.recorded_config import CONFIG_FILE, recorded_gin, require_run_folder
from mtf_models.runtime.folder.vocabulary_record import RECORD_FILE, vocabularies_of

if TYPE_CHECKING:
    import seqio


class TrainedFolder:
    """A run folder, or one of its checkpoints. See `model_folder.ModelFolder`.

    Args:
        path: the folder or the checkpoint.
    """

    def __init__(self, path: str | Path) -> None:
        self._given = Path(path)
        self.path = folder_of(path)

    @property
    def has_config(self) -> bool:
        """Whether the run has recorded its config."""
        return (self.path / CONFIG_FILE).is_file()

    @property
    def gin(self) -> str:
        """The file of the recorded config."""
        return recorded_gin(self.path)

    def checkpoint(self, step: int | None = None, allow_partial: bool = False) -> Reader:
        """A checkpoint; whether it may be partial is for whoever restores it."""
        return Reader(locate(self._given, step))

    def value_files(self, step: int | None = None) -> list[Path]:
        """Those of one checkpoint."""
        return files_of(locate(self._given, step))

    def steps(self, wanted: CheckpointSteps, watches: bool = False) -> Iterator[int]:
        """The steps of several checkpoints."""
        require_run_folder(self.path)
        return steps_of(self.path, wanted, watches)

    def fingerprints(self) -> Mapping[str, Mapping[str, Any]] | None:
        """What the run recorded of its vocabularies."""
        file = self.path / RECORD_FILE
        return json.loads(file.read_text("utf-8")) if file.exists() else None

    def vocabularies(self, config: Config) -> Mapping[str, seqio.Vocabulary] | None:
        """Those of the config's task."""
        return vocabularies_of(config)

    def task(self, config: Config) -> str:
        """The config's task."""
        return prepare.task_name(config)

    def results(self) -> Path:
        """The run folder itself."""
        return self.path
