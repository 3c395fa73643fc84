"""What tells one vocabulary from another: kind, size and a hash over all that it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import seqio

from mtf_models.data.vocabularies.subwords import SubwordVocabulary
from mtf_models.data.vocabularies.word_pieces import WordPieceVocabulary

Fingerprint = dict[str, Any]
"""`kind`, `size`, `extra_ids`, `sha256` and, where there is one, `file`."""

_PROBE = "The quick brown fox, Jumps over 13 lazy dogs: naïve 日本 <extra_id_0> end."


def fingerprint(vocabulary: seqio.Vocabulary) -> Fingerprint:
    """The fingerprint of a vocabulary.

    Files count with their content and not with their path. A vocabulary of a class that is not
    known here counts with how it encodes a sentence.
    """
    content, file = _content(vocabulary)
    found = {
        "kind": type(vocabulary).__name__,
        "size": int(vocabulary.vocab_size),
        "extra_ids": int(vocabulary.extra_ids),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    return found if file is None else {**found, "file": file}


def fingerprints(task: seqio.Task | seqio.Mixture) -> dict[str, Fingerprint]:
    """Feature to the fingerprint of its vocabulary, for the features of a task."""
    return {name: fingerprint(f.vocabulary) for name, f in task.output_features.items()}


def differences(recorded: Mapping[str, Fingerprint], found: Mapping[str, Fingerprint]) -> list[str]:
    """What differs between the vocabularies of a run and those that are there now.

    Only features that both have are compared, and a file may have another path.

    Args:
        recorded: feature to fingerprint, of the run.
        found: those that are there.

    Returns:
        A text for each feature that differs.
    """
    texts = []
    for name in recorded.keys() & found.keys():
        there, here = recorded[name], found[name]
        keys = [key for key in ("kind", "size", "extra_ids", "sha256") if there[key] != here[key]]
        if keys:
            differing = ", ".join(f"{k} {_short(there[k])}, now {_short(here[k])}" for k in keys)
            texts.append(f"{name}: {differing}{_files(there, here)}")
    return sorted(texts)


def _files(there: Fingerprint, here: Fingerprint) -> str:
    files = there.get("file"), here.get("file")
    return f" (was {files[0]}, is {files[1]})" if any(files) else ""


def _short(value: Any) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)


def _content(vocabulary: seqio.Vocabulary) -> tuple[bytes, str | None]:
    if isinstance(vocabulary, seqio.SentencePieceVocabulary):
        return vocabulary.sp_model, vocabulary.sentencepiece_model_file
    if isinstance(vocabulary, WordPieceVocabulary):
        return "\n".join(vocabulary.pieces).encode(), vocabulary.path
    if isinstance(vocabulary, SubwordVocabulary):
        return "\n".join(vocabulary.subwords).encode(), vocabulary.path
    if isinstance(vocabulary, seqio.ByteVocabulary):
        return b"bytes", None
    if isinstance(vocabulary, seqio.PassThroughVocabulary):
        return b"ids", None
    return repr(list(vocabulary.encode(_PROBE))).encode(), None
