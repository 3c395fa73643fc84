"""What holds a model that commands use: a run folder, or a folder of Hugging Face's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mtf_models.checkpoint import is_hugging_face_folder
from mtf_models.checkpoint.locate import readable
from mtf_models.checkpoint.source import Source
from mtf_models.config import Config, GinSource
from mtf_models.runtime.folder.checkpoint_steps import CheckpointSteps
from mtf_models.runtime.folder.hugging_face_folder import HuggingFaceFolder
from mtf_models.runtime.folder.trained_folder import TrainedFolder

if TYPE_CHECKING:
    import seqio


class ModelFolder(Protocol):
    """Who gives the config of a model, its values and its vocabularies.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def has_config(self) -> bool:
        """Whether it says what the model is."""

    @property
    def gin(self) -> GinSource:
        """The config of the model.

        Raises:
            CheckpointError: if there is none, or it cannot be read.
        """

    def checkpoint(self, step: int | None = None, allow_partial: bool = False) -> Source:
        """The values of the model.

        Args:
            step: which of its checkpoints; None for the latest.
            allow_partial: whether variables may be in the model or here only.

        Raises:
            CheckpointError: if there is no such checkpoint, or it is torn.
        """

    def value_files(self, step: int | None = None) -> list[Path]:
        """The files that hold the values of the model.

        Args:
            step: of which of its checkpoints; None for the latest.

        Raises:
            CheckpointError: if there is no such checkpoint, or it is torn.
        """

    def steps(self, wanted: CheckpointSteps, watches: bool = False) -> Iterator[int]:
        """The steps of several checkpoints, see `checkpoint_steps.steps_of`.

        Raises:
            CheckpointError: if some are not there.
        """

    def fingerprints(self) -> Mapping[str, Mapping[str, Any]] | None:
        """Feature to the fingerprint of the vocabulary that the model was trained with.

        None if that is not known.
        """

    def vocabularies(self, config: Config) -> Mapping[str, seqio.Vocabulary] | None:
        """Feature to vocabulary, for texts of no task; None for T5's.

        Args:
            config: of the model.
        """

    def task(self, config: Config) -> str:
        """The task whose vocabularies are used where a command names none.

        Args:
            config: of the model.

        Raises:
            MtfError: if there is none.
        """

    def results(self) -> Path:
        """The folder that results go to where a command names none.

        Raises:
            ConfigError: if none may be written there.
        """


def model_folder(path: str | Path) -> ModelFolder:
    """The folder that a path means.

    Args:
        path: a run folder, ours or the original's, or a checkpoint in it, such as
            "runs/a/model.ckpt-1000"; or a folder with `config.json` and safetensors.

    Raises:
        CheckpointError: if the path cannot be looked at, or is that of a file of pickled objects.
    """
    with readable(path):
        is_theirs = is_hugging_face_folder(Path(path))
    return HuggingFaceFolder(Path(path)) if is_theirs else TrainedFolder(path)
