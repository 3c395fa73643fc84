"""Vocabularies by name: T5's, bytes, and files of SentencePiece, WordPiece and TFDS."""

from __future__ import annotations

import functools
from pathlib import Path

import seqio

from mtf_models.data.vocabularies.places import place_of
from mtf_models.data.vocabularies.subwords import SUFFIX as SUBWORDS
from mtf_models.data.vocabularies.subwords import SubwordVocabulary
from mtf_models.data.vocabularies.word_pieces import WordPieceVocabulary
from mtf_models.datasets.vocabs import arpabet_model, t5_model
from mtf_models.errors import DataError

T5 = "t5"
BYTES = "bytes"

KINDS = (
    f'"{T5}", "{BYTES}", "arpabet", a SentencePiece model (FILE.model), a WordPiece vocabulary '
    f"(FILE.txt) or one of TensorFlow Datasets (FILE{SUBWORDS})"
)
"""What names a vocabulary, for messages and help."""

_T5_SENTINELS = 100
_SHIPPED = {T5: t5_model, "arpabet": arpabet_model}


@functools.cache
def vocabulary_named(name: str, extra_ids: int | None = None) -> seqio.Vocabulary:
    """The vocabulary of a name.

    Args:
        name: one of `KINDS`.
        extra_ids: how many sentinels it has beyond its own ids, at the end; None for 100 of T5's
            and none of others.

    Raises:
        DataError: if there is none of this name, its file cannot be used, or pad and end of
            sequence are not its ids 0 and 1.
    """
    extra = extra_ids if extra_ids is not None else _T5_SENTINELS if name == T5 else 0
    if extra < 0:
        raise DataError(f"extra_ids is {extra}: give a number from 0.")
    if name == BYTES:
        return seqio.ByteVocabulary(extra)
    path = _SHIPPED[name]() if name in _SHIPPED else place_of(name)
    suffix = Path(path).suffix
    if suffix not in (".model", ".txt", SUBWORDS):
        raise DataError(f"There is no vocabulary {name!r}: give {KINDS}.")
    if not Path(path).is_file():
        raise DataError(f"The vocabulary {path} is not there: give {KINDS}.")
    if suffix == ".txt":
        return WordPieceVocabulary(path, extra)
    if suffix == SUBWORDS:
        return SubwordVocabulary(path, extra)
    return _sentencepiece(path, extra)


def _sentencepiece(path: str, extra_ids: int) -> seqio.SentencePieceVocabulary:
    vocabulary = seqio.SentencePieceVocabulary(path, extra_ids)
    try:
        tokenizer = vocabulary.tokenizer
    except Exception as error:  # protobuf and SentencePiece have their own
        raise DataError(f"{path} is no SentencePiece model: {error}.") from error
    ids = {"pad": tokenizer.pad_id(), "end of sequence": tokenizer.eos_id()}
    if list(ids.values()) != [0, 1]:
        found = " and ".join(f"{name} {number}" for name, number in ids.items())
        raise DataError(
            f"{path} has {found}, and models here have pad 0 and end of sequence 1: train it with "
            "`mtf tasks train-vocab`, or with --pad_id=0 --eos_id=1 --unk_id=2 --bos_id=-1."
        )
    return vocabulary
