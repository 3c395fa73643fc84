"""The tasks of t5, with the copy of their vocabulary that ships with this package."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import Any

import seqio

from mtf_models.datasets.vocabs import t5_model
from mtf_models.errors import DataError

_MODULE = "t5.data.mixtures"
_EXTRA_IDS = 100
_WITH_SENTINELS = f"vocabs/cc_all.32000.{_EXTRA_IDS}extra/sentencepiece.model"
"""The end of the path of another file of T5's vocabulary, which has the sentinels in it."""


def use_shipped_vocabulary() -> None:
    """Lets tasks that ask t5 for its vocabulary find it without a network; before they do.

    t5 names a file of Google Cloud Storage, and every task with it would fail where that cannot be
    reached; the one that ships here is the same.
    """
    # By its name in full: `t5.data` has another module under the attribute `utils`.
    importlib.import_module("t5.data.utils").DEFAULT_SPM_PATH = t5_model()


@functools.cache
def register_t5() -> frozenset[str]:
    """Registers the tasks and mixtures of t5. Calling it again does nothing.

    Returns:
        Their names, without those that somebody else has let t5 register before.

    Raises:
        DataError: an imported module has taken one of their names.
    """
    use_shipped_vocabulary()
    before = _names()
    try:
        importlib.import_module(_MODULE)
    except ValueError as error:
        raise DataError(
            f"t5's tasks cannot be registered: {error}. An imported module has a task of this name:"
            " give it another."
        ) from error
    _give_sentinels()
    return frozenset(_names() - before)


def _give_sentinels() -> None:
    """Lets tasks read the vocabulary that ships here where they name the file with sentinels.

    Its ids are those of the file without, made longer by the sentinels as SeqIO does it.
    """
    vocabulary = seqio.SentencePieceVocabulary(t5_model(), _EXTRA_IDS)
    for name in list(seqio.TaskRegistry.names()):
        task = seqio.TaskRegistry.get(name)
        features = {
            key: dataclasses.replace(feature, vocabulary=vocabulary)
            for key, feature in task.output_features.items()
            if _file(feature).endswith(_WITH_SENTINELS)
        }
        if features:
            seqio.TaskRegistry.remove(name)
            features = {**task.output_features, **features}
            seqio.TaskRegistry.add_provider(name, task.replace(output_features=features))


def _file(feature: Any) -> str:
    return getattr(feature.vocabulary, "sentencepiece_model_file", "")


def _names() -> set[str]:
    return {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
