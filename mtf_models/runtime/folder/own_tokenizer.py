"""The tokenizer that lies in a folder of Hugging Face's, as a vocabulary of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from mtf_models.checkpoint.hugging_face_config import CONFIG_FILE
from mtf_models.data.vocabularies.tokenizer_json import pieces_of
from mtf_models.errors import CheckpointError

PIECES_FILE = "spiece.model"
JSON_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
BYTES_CLASS = "ByT5Tokenizer"
TOKENIZER_FILES = (
    PIECES_FILE,
    JSON_FILE,
    TOKENIZER_CONFIG_FILE,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
)
"""What transformers keeps of a tokenizer."""

# Where tokenizer_config.json does not say how many, as transformers takes it.
_EXTRA_IDS, _EXTRA_IDS_OF_BYTES = 100, 125


class Tokenizer(NamedTuple):
    """A vocabulary by name.

    Attributes:
        vocabulary: its name, see `data.vocabularies.named`.
        extra_ids: sentinels at its end.
    """

    vocabulary: str
    extra_ids: int


def tokenizer_of(folder: Path) -> Tokenizer | None:
    """The tokenizer of a folder; None if it has none that is read here.

    Raises:
        CheckpointError: if its config cannot be read.
    """
    fields = _fields(folder / TOKENIZER_CONFIG_FILE)
    kind = fields.get("tokenizer_class") or _fields(folder / CONFIG_FILE).get("tokenizer_class")
    if kind == BYTES_CLASS:
        extra_ids = fields.get("extra_ids", _EXTRA_IDS_OF_BYTES)
        # transformers 5 lists those that it says there are none of.
        return Tokenizer("bytes", extra_ids or _listed(fields))
    pieces = folder / PIECES_FILE
    if pieces.is_file():
        return Tokenizer(str(pieces.absolute()), fields.get("extra_ids", _EXTRA_IDS))
    written = pieces_of(folder / JSON_FILE) if (folder / JSON_FILE).is_file() else None
    return None if written is None else Tokenizer(str(written.path), written.extra_ids)


def missing_text(folder: Path) -> str:
    """Says what a folder has of a tokenizer, if nothing here reads it, and what is missing."""
    present = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    return (
        f"{folder} has no tokenizer that is read here, which is {PIECES_FILE}, a {JSON_FILE} of "
        f"SentencePiece's unigrams, or a {TOKENIZER_CONFIG_FILE} that says {BYTES_CLASS}; it has "
        f"{', '.join(present) or 'no file of one'}."
    )


def _listed(fields: dict[str, Any]) -> int:
    """How many sentinels are among the added tokens."""
    added = fields.get("added_tokens_decoder", {}).values()
    return sum(token.get("content", "").startswith("<extra_id_") for token in added)


def _fields(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}. Copy it again.") from error
