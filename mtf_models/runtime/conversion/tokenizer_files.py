"""The files of a tokenizer, from folder to folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from mtf_models.config import Config
from mtf_models.errors import CheckpointError
from mtf_models.runtime.bindings.task_modules import query_task
from mtf_models.runtime.folder.own_tokenizer import (
    BYTES_CLASS,
    JSON_FILE,
    PIECES_FILE,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILES,
    tokenizer_of,
)


def copy(source: Path, target: Path) -> str:
    """Copies what a folder has of a tokenizer, byte for byte.

    Returns:
        What was copied, and what here can read it.
    """
    present = [name for name in TOKENIZER_FILES if (source / name).is_file()]
    for name in present:
        _copy(source / name, target / name)
    own = tokenizer_of(source)
    if own is not None and own.vocabulary == "bytes":
        return "bytes (seqio.ByteVocabulary)"
    if own is not None and PIECES_FILE in present:
        return f"{PIECES_FILE} (seqio.SentencePieceVocabulary reads it)"
    if own is not None:
        return f"{JSON_FILE} (its pieces are {own.vocabulary})"
    if present:
        return f"{', '.join(present)} (copied for transformers; no vocabulary here reads them)"
    return "none in the source"


def write(config: Config, source: Path, target: Path) -> str:
    """Writes the tokenizer of a run folder as transformers reads it.

    Args:
        config: of the run; may name a task, whose vocabulary is taken.
        source: the run folder; files of a tokenizer there come first.
        target: the folder to write to.

    Returns:
        What was written, or why nothing.
    """
    if any((source / name).is_file() for name in TOKENIZER_FILES):
        return copy(source, target)
    vocabulary = _vocabulary(config)
    kind = type(vocabulary).__name__
    if kind == "SentencePieceVocabulary":
        _copy(Path(vocabulary.sentencepiece_model_file), target / PIECES_FILE)
        extra = vocabulary.extra_ids or 0
        _write_config(target, {"tokenizer_class": "T5Tokenizer", "extra_ids": extra})
        return f"{PIECES_FILE}, with {extra} extra ids"
    if kind == "ByteVocabulary":
        # The ids above three special ones and 256 bytes.
        extra = vocabulary.vocab_size - 259
        _write_config(target, {"tokenizer_class": BYTES_CLASS, "extra_ids": extra})
        return "bytes"
    if vocabulary is None:
        return "none: the config names no task with one vocabulary for inputs and targets"
    return f"none: transformers has nothing like a {kind}"


def _vocabulary(config: Config) -> Any:
    """Of the task, if inputs and targets have the same."""
    names = [query_task(config, f) for f in ("mesh_eval_dataset_fn", "get_vocabulary")]
    if not any(names):
        return None
    from mtf_models.data.tasks import get_task_or_mixture

    features = get_task_or_mixture(next(filter(None, names))).output_features
    vocabularies = [features[n].vocabulary for n in ("inputs", "targets") if n in features]
    return vocabularies[0] if vocabularies[0] == vocabularies[-1] else None


def _write_config(folder: Path, fields: dict[str, Any]) -> None:
    special = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    text = json.dumps({**fields, **special}, indent=2)
    (folder / TOKENIZER_CONFIG_FILE).write_text(text + "\n", encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise CheckpointError(
            f"{source} cannot be copied: {error.strerror}. Mend its permissions, or remove it."
        ) from error
