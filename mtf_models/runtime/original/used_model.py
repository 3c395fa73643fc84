"""A trained model as modes use it: with its texts' vocabularies, one checkpoint after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtf_models.checkpoint import SLOTS, CheckpointManager, Reader
from mtf_models.config import Config
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh
from mtf_models.runtime.bindings.task_modules import query_task
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.model.vocabulary import VOCAB_DIVISOR
from mtf_models.runtime.using.batches import batch_rows, reporting_trimmed
from mtf_models.runtime.whole_file import write_text, writing

if TYPE_CHECKING:
    from mtf_models.data.evaluation import EvaluationBatch


class Vocabularies(NamedTuple):
    """Text to ids and back.

    Attributes:
        inputs: of the inputs; of a decoder-only model those of the targets.
        targets: of the targets.
    """

    inputs: Any
    targets: Any


def vocabularies_of(config: Config, sizes: Mapping[str, int]) -> Vocabularies:
    """The vocabularies of the config's task; T5's where it names none.

    Args:
        config: of the model.
        sizes: feature name to how many ids the model has for it.

    Raises:
        ConfigError: if the config names no task, and the model has another number of ids than T5.
        DataError: if there is no such task.
    """
    names = (query_task(config, f) for f in ("get_vocabulary", "mesh_eval_dataset_fn"))
    name = next((name for name in names if name is not None), None)
    if name is None:
        import seqio

        from mtf_models.datasets.vocabs import t5_model

        pieces = seqio.SentencePieceVocabulary(t5_model(), extra_ids=100)
        others = {n: size for n, size in sizes.items() if not _are_rows_of(size, pieces.vocab_size)}
        if others:
            raise ConfigError(
                f"The config names no task, and the model's vocabulary is not T5's of "
                f"{pieces.vocab_size} ids: it has "
                f"{', '.join(f'{size} for {name}' for name, size in others.items())}. Bind "
                "get_vocabulary.mixture_or_task_name to a task that has its vocabulary."
            )
        return Vocabularies(pieces, pieces)
    from mtf_models.data.tasks import get_task_or_mixture

    features = get_task_or_mixture(name).output_features
    return Vocabularies(*(features.get(n, features["targets"]).vocabulary for n in _SIDES))


_SIDES = ("inputs", "targets")


def _are_rows_of(size: int, ids: int) -> bool:
    """Whether a model has so many ids, or as many as a table of them has rows."""
    return ids <= size <= -(-ids // VOCAB_DIVISOR) * VOCAB_DIVISOR


class UsedModel:
    """The model of a run folder, at one step at a time.

    Args:
        folder: of the checkpoints.
        config: of the model.
        mesh: where it runs.

    Attributes:
        model: the model.
        step: of the checkpoint whose values it has.
        vocabularies: of its texts.

    Raises:
        MtfError: if there is no checkpoint, or it does not fit the config.
    """

    def __init__(self, folder: str | Path, config: Config, mesh: Mesh) -> None:
        self._manager = CheckpointManager(folder)
        latest = self._manager.chosen(None)
        reader = Reader(self._manager.prefix(latest))
        seed = config.query("utils.run.seed", 0)
        self.folder = Path(folder)
        self.model: Model = model_from_config(config, mesh, seed, reader=reader)
        self.vocabularies = vocabularies_of(config, self.model.network.vocab_sizes)
        self.step: int | None = None

    def at(self, step: int) -> UsedModel:
        """The model with the values of a checkpoint."""
        if step != self.step:
            self._manager.restore(step, self.model.variables, allow_left_over=SLOTS)
            self.step = step
        return self

    @property
    def lengths(self) -> dict[str, int]:
        """Feature name to length, for both sides whatever the model reads."""
        lengths = dict(self.model.settings.sequence_length)
        lengths.setdefault("inputs", lengths["targets"])
        return lengths

    @property
    def reads_prompts(self) -> bool:
        """Whether texts are continued: nothing ends them."""
        return self.model.settings.model_type == "lm"

    def batches(self, texts: Mapping[str, Iterable[np.ndarray]]) -> Iterator[EvaluationBatch]:
        """Batches of encoded texts, one to a row, cut to the config's lengths.

        Args:
            texts: feature name to ids of each text; all features have equally many.
        """
        from mtf_models.data.evaluation import batches_of

        rows = [dict(zip(texts, ids, strict=True)) for ids in zip(*texts.values(), strict=True)]
        lengths = {name: self.lengths[name] for name in texts}
        batches = batches_of(iter(rows), lengths, batch_rows(self.model, len(rows)))
        return reporting_trimmed(batches, lengths)


def encode(vocabulary: Any, text: str, *ending: int) -> np.ndarray:
    """The ids of a text, with what ends it."""
    return np.array([*vocabulary.encode(text), *ending], np.int32)


def decode(vocabulary: Any, ids: np.ndarray) -> str:
    """The text of a row of ids in one line; the vocabulary heeds the end of sequence."""
    text = vocabulary.decode(np.asarray(ids).tolist())
    return in_a_line(text if isinstance(text, str) else " ".join(map(str, text)))


def in_a_line(value: Any) -> str:
    """A value as the original writes it, one to a line of a file."""
    text = value.decode("utf-8") if isinstance(value, bytes) else str(value)
    return text.replace("\n", " ")


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Writes a text file, one line for each text; its folder is made if need be.

    Raises:
        DataError: if that cannot be done; what was there stays.
    """
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{line}\n" for line in lines))
