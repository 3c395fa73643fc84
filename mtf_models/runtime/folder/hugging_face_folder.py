"""A folder of Hugging Face's as what holds a model; nothing is ever written there."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mtf_models.checkpoint import HuggingFaceReader
from mtf_models.checkpoint.hugging_face import say_once
from mtf_models.checkpoint.hugging_face_config import CONFIG_FILE, architecture_of, read_config
from mtf_models.config import Config, GinText
from mtf_models.errors import CheckpointError, ConfigError, DataError
from mtf_models.runtime.folder.checkpoint_steps import CheckpointSteps
from mtf_models.runtime.folder.own_tokenizer import missing_text, tokenizer_of
from mtf_models.runtime.folder.vocabulary_record import task_of
from mtf_models.runtime.model.config_of_architecture import gin_of

if TYPE_CHECKING:
    import seqio


class HuggingFaceFolder:
    """A folder with `config.json` and safetensors. See `model_folder.ModelFolder`.

    Args:
        path: the folder.
    """

    has_config = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @functools.cached_property
    def _reader(self) -> HuggingFaceReader:
        return HuggingFaceReader(self.path)

    @property
    def gin(self) -> GinText:
        """What config.json comes to; tasks of files get the folder's vocabulary."""
        reader = self._reader
        source = str(self.path / CONFIG_FILE)
        found = gin_of(reader.architecture, reader.weights_dtype, source)
        own = tokenizer_of(self.path)
        if own is None:
            return found
        lines = (f"text_task.{name} = {value!r}" for name, value in own._asdict().items())
        return found._replace(text="\n".join([found.text, *lines]))

    def checkpoint(self, step: int | None = None, allow_partial: bool = False) -> HuggingFaceReader:
        """The values, of which there are one for each variable and no steps."""
        self._refuse(step=step, allow_partial=allow_partial or None)
        return self._reader

    def value_files(self, step: int | None = None) -> list[Path]:
        """All safetensors, of which none has a step."""
        self._refuse(step=step)
        return sorted(self.path.glob("*.safetensors"))

    def steps(self, wanted: CheckpointSteps, watches: bool = False) -> Iterator[int]:
        """There are none."""
        self._refuse(steps=wanted, follow=watches or None)
        return iter(())

    def fingerprints(self) -> Mapping[str, Mapping[str, Any]] | None:
        """Of the folder's tokenizer, if it can be read."""
        if tokenizer_of(self.path) is None:
            say_once(
                f"{missing_text(self.path)} Take care that the task's vocabulary is the same.",
                logging.WARNING,
            )
            return None
        from mtf_models.data.vocabularies.fingerprint import fingerprint

        return dict.fromkeys(("inputs", "targets"), fingerprint(self._vocabulary()))

    def vocabularies(self, config: Config) -> Mapping[str, seqio.Vocabulary]:
        """The folder's own, for what the model reads."""
        is_lm = config.query("utils.run.model_type") == "lm"
        return dict.fromkeys(("targets",) if is_lm else ("inputs", "targets"), self._vocabulary())

    def task(self, config: Config) -> str:
        """The config's task, if the command binds one; else one of the folder's vocabulary."""
        from mtf_models.data.unregistered import add_without_examples

        return task_of(config) or add_without_examples(self.path, self.vocabularies(config))

    def results(self) -> NoReturn:
        """Nowhere.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"{self.path} is a Hugging Face folder, in which nothing is written: say where results "
            "go, --output=FOLDER."
        )

    def _vocabulary(self) -> seqio.Vocabulary:
        from mtf_models.data.vocabularies.named import vocabulary_named

        own = tokenizer_of(self.path)
        if own is None:
            raise DataError(
                f"{missing_text(self.path)} Put spiece.model there, or give a task that has this "
                "vocabulary: --task=NAME."
            )
        found = vocabulary_named(*own)
        rows = architecture_of(read_config(self.path), has_classifier=False).vocab_size
        if found.vocab_size > rows:
            raise DataError(
                f"The tokenizer of {self.path} has {found.vocab_size} ids, {own.extra_ids} extra "
                f"ones among them, and {CONFIG_FILE} says {rows}: take both from the same model."
            )
        return found

    def _refuse(self, **given: Any) -> None:
        """Refuses what is for checkpoints of ours; None is not given."""
        found = [f"{name}={value}" for name, value in given.items() if value is not None]
        if found:
            raise CheckpointError(
                f"{self.path} is a Hugging Face folder, which holds one whole model and no steps; "
                f"leave out {' and '.join(found)}."
            )
