"""SentencePiece models out of the `tokenizer.json` that transformers writes in their place."""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mtf_models.data.user_cache import user_cache
from mtf_models.data.vocabularies.added_tokens import END, PAD, SENTINEL, added_faults, sentinels
from mtf_models.datasets.vocabs import t5_model
from mtf_models.errors import DataError


class Pieces(NamedTuple):
    """A file of pieces.

    Attributes:
        path: of the file.
        extra_ids: sentinels after its pieces.
    """

    path: Path
    extra_ids: int


class Unread(NamedTuple):
    """A tokenizer that cannot be read here.

    Attributes:
        reason: why.
    """

    reason: str


def pieces_of(file: Path) -> Pieces | Unread:
    """Writes the pieces of a tokenizer as SentencePiece has them, unless that was done before.

    T5's own are not written: their file ships with this package.

    Args:
        file: a `tokenizer.json`.

    Returns:
        The file of the pieces; or why there is none, as for a tokenizer of another kind than
        SentencePiece's unigrams.

    Raises:
        DataError: if it cannot be read, is damaged, or the cache cannot be written.
    """
    try:
        content = file.read_bytes()
        found = _converted(json.loads(content), file.name)
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {error}. Copy it again.") from error
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise DataError(
            f"{file} is not as transformers writes it ({type(error).__name__}: {error}). Copy it "
            "again."
        ) from error
    if isinstance(found, Unread):
        return found
    model, extra_ids = found
    if _are_t5s(model):
        return Pieces(Path(t5_model()), extra_ids)
    name = f"tokenizer_{hashlib.sha256(content).hexdigest()[:16]}.model"
    path = user_cache("vocabularies") / name
    if not path.is_file():
        _write(path, model.SerializeToString(deterministic=True))
    return Pieces(path, extra_ids)


def _converted(fields: dict[str, Any], name: str) -> tuple[Any, int] | Unread:
    """SentencePiece's message, and the number of sentinels after its pieces."""
    if not _is_unigram(fields):
        return Unread(f"{name} is not of SentencePiece's unigrams")
    vocabulary = fields["model"]["vocab"]
    extra_ids = sum(piece.startswith(SENTINEL) for piece, _ in vocabulary)
    if faults := list(_faults(fields, extra_ids)):
        return Unread(f"of {name} {'; '.join(faults)}")
    return _model(fields, vocabulary[: len(vocabulary) - extra_ids]), extra_ids


def _is_unigram(fields: dict[str, Any]) -> bool:
    """Whether it does what SentencePiece does: its normalisation, then the likeliest unigrams."""
    model, before = fields.get("model") or {}, fields.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    return (
        model.get("type") == "Unigram"
        and not model.get("byte_fallback")
        and (fields.get("normalizer") or {}).get("type") == "Precompiled"
        and [step.get("type") for step in steps] == ["WhitespaceSplit", "Metaspace"]
        and {END, PAD} <= {piece for piece, _ in model["vocab"]}
    )


def _faults(fields: dict[str, Any], extra_ids: int) -> Iterator[str]:
    """What SentencePiece would not do as this tokenizer does."""
    pieces = [piece for piece, _ in fields["model"]["vocab"]]
    added = {token["content"]: token["id"] for token in fields.get("added_tokens") or ()}
    yield from added_faults(added, extra_ids, last=len(pieces) - 1)
    if pieces[len(pieces) - extra_ids :] != sentinels(extra_ids):
        yield f"the {extra_ids} sentinels are not the last pieces, in T5's order"
    if fields["model"].get("unk_id") is None:
        yield "no piece stands for what is unknown (unk_id)"
    before = fields["pre_tokenizer"]["pretokenizers"][1]
    says = {"replacement": "▁", "prepend_scheme": "always", "add_prefix_space": True}
    for name, value in says.items():
        if before.get(name, value) != value:
            yield f"{name} of Metaspace is {before[name]!r}, and {value!r} is read"


def _model(fields: dict[str, Any], vocabulary: list[Any]) -> Any:
    """SentencePiece's message that says the same."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

    kinds = ModelProto.SentencePiece
    unknown = fields["model"]["unk_id"]
    model = ModelProto()
    for number, (piece, score) in enumerate(vocabulary):
        special = kinds.CONTROL if piece in (END, PAD) else kinds.NORMAL
        kind = kinds.UNKNOWN if number == unknown else special
        model.pieces.add(piece=piece, score=score, type=kind)
    numbers = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    trained = model.trainer_spec
    trained.model_type, trained.vocab_size = TrainerSpec.UNIGRAM, len(vocabulary)
    trained.unk_id, trained.bos_id = unknown, -1
    trained.eos_id, trained.pad_id = numbers[END], numbers[PAD]
    trained.eos_piece, trained.pad_piece = END, PAD
    trained.unk_piece = vocabulary[unknown][0]
    normalised = model.normalizer_spec
    normalised.precompiled_charsmap = base64.b64decode(fields["normalizer"]["precompiled_charsmap"])
    normalised.add_dummy_prefix = normalised.remove_extra_whitespaces = True
    normalised.escape_whitespaces = True
    return model


def _are_t5s(model: Any) -> bool:
    """Whether pieces, their scores and the normalisation are those of T5's vocabulary."""
    shipped = type(model).FromString(Path(t5_model()).read_bytes())
    same_text = (
        model.normalizer_spec.precompiled_charsmap == shipped.normalizer_spec.precompiled_charsmap
    )
    return same_text and [(p.piece, p.score) for p in model.pieces] == [
        (p.piece, p.score) for p in shipped.pieces
    ]


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In a folder of this call's own: another process may be writing the same.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            aside = Path(folder) / path.name
            aside.write_bytes(content)
            aside.replace(path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}. Make room, or set XDG_CACHE_HOME."
        ) from error
