"""The tokenizer that lies in a folder of Hugging Face's, as a vocabulary of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from mtf_models.checkpoint.hugging_face_config import CONFIG_FILE
from mtf_models.data.vocabularies.added_tokens import SENTINEL, added_faults
from mtf_models.data.vocabularies.tokenizer_json import Unread, pieces_of
from mtf_models.errors import CheckpointError, MtfError

PIECES_FILE = "spiece.model"
JSON_FILE = "tokenizer.json"
ADDED_FILE = "added_tokens.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
BYTES_CLASS = "ByT5Tokenizer"
TOKENIZER_FILES = (
    PIECES_FILE,
    JSON_FILE,
    TOKENIZER_CONFIG_FILE,
    "special_tokens_map.json",
    ADDED_FILE,
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
        CheckpointError: if its config cannot be read, or is damaged.
    """
    found = _found(folder)
    return found if isinstance(found, Tokenizer) else None


def missing_text(folder: Path) -> str:
    """Says what a folder has of a tokenizer, if nothing here reads it, and why."""
    found = _found(folder)
    why = f" ({found.reason})" if isinstance(found, Unread) else ""
    present = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    return (
        f"{folder} has no tokenizer that is read here, which is {PIECES_FILE}, a {JSON_FILE} of "
        f"SentencePiece's unigrams, or a {TOKENIZER_CONFIG_FILE} that says {BYTES_CLASS}; it has "
        f"{', '.join(present) or 'no file of one'}{why}."
    )


def _found(folder: Path) -> Tokenizer | Unread | None:
    try:
        return _read(folder)
    except MtfError:  # Which may be a ValueError too.
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"What {folder} says of its tokenizer in {CONFIG_FILE}, {TOKENIZER_CONFIG_FILE} or "
            f"{ADDED_FILE} is not as transformers writes it ({type(error).__name__}: {error}). "
            "Copy them again."
        ) from error


def _read(folder: Path) -> Tokenizer | Unread | None:
    fields = _fields(folder / TOKENIZER_CONFIG_FILE)
    kind = fields.get("tokenizer_class") or _fields(folder / CONFIG_FILE).get("tokenizer_class")
    if kind == BYTES_CLASS:
        extra_ids = _extra_ids(fields, _EXTRA_IDS_OF_BYTES)
        # transformers 5 lists those that it says there are none of.
        return Tokenizer("bytes", extra_ids or _listed(fields))
    pieces = folder / PIECES_FILE
    if pieces.is_file():
        extra_ids = _extra_ids(fields, _EXTRA_IDS)
        faults = list(added_faults(_added(folder, fields), extra_ids))
        return Unread("; ".join(faults)) if faults else Tokenizer(str(pieces.absolute()), extra_ids)
    if not (folder / JSON_FILE).is_file():
        return None
    written = pieces_of(folder / JSON_FILE)
    if isinstance(written, Unread):
        return written
    return Tokenizer(str(written.path), written.extra_ids)


def _added(folder: Path, fields: dict[str, Any]) -> dict[str, int]:
    """Token to id of what was added to pieces, as old and new versions of transformers say it."""
    listed = fields.get("added_tokens_decoder", {})
    return {
        **{token["content"]: int(number) for number, token in listed.items()},
        **_fields(folder / ADDED_FILE),
    }


def _extra_ids(fields: dict[str, Any], default: int) -> int:
    found = fields.get("extra_ids", default)
    if not isinstance(found, int) or found < 0:
        raise ValueError(f"extra_ids is {found!r}")
    return found


def _listed(fields: dict[str, Any]) -> int:
    """How many sentinels are among the added tokens."""
    added = fields.get("added_tokens_decoder", {}).values()
    return sum(token.get("content", "").startswith(SENTINEL) for token in added)


def _fields(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}. Copy it again.") from error
