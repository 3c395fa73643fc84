"""Training a SentencePiece vocabulary whose ids are those of the models here."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

from mtf_models.errors import DataError

MODEL_TYPES = ("unigram", "bpe", "char", "word")


def train_vocabulary(
    texts: Iterable[str], output: str | Path, size: int, model_type: str = "unigram"
) -> int:
    """Trains a SentencePiece model and writes it.

    Pad is 0, end of sequence 1 and unknown 2, as in T5's; there is no begin of sequence. What no
    piece covers is unknown.

    Args:
        texts: what to train it on.
        output: the file, FILE.model.
        size: how many pieces it is to have, those three included.
        model_type: one of `MODEL_TYPES`.

    Returns:
        How many pieces it has.

    Raises:
        DataError: if the texts are too few or too uniform for so many pieces, or the file cannot
            be written.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            vocab_size=size,
            model_type=model_type,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2].strip().rstrip(".")
        raise DataError(
            f"No vocabulary of {size} pieces can be made of these texts: {reason or error}. Give "
            "another --size, or more text."
        ) from error
    try:
        Path(output).write_bytes(model.getvalue())
    except OSError as error:
        raise DataError(f"{output} cannot be written: {error.strerror}.") from error
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).GetPieceSize()
