"""Which tokenizers of a folder are read, and why others are not."""

import json

import pytest

from mtf_models.errors import CheckpointError
from mtf_models.runtime.folder.own_tokenizer import missing_text, tokenizer_of


@pytest.fixture
def folder(tmp_path):
    """Pieces, with as many sentinels as transformers takes without a word of them."""
    (tmp_path / "spiece.model").touch()
    return tmp_path


def test_sentinels_that_are_listed_are_read(folder):
    listed = {f"<extra_id_{i}>": 32099 - i for i in range(100)}
    (folder / "added_tokens.json").write_text(json.dumps(listed))
    fields = {str(i): {"content": name} for name, i in {"<pad>": 0, **listed}.items()}
    text = json.dumps({"added_tokens_decoder": fields})
    (folder / "tokenizer_config.json").write_text(text)
    assert tokenizer_of(folder) == (str(folder / "spiece.model"), 100)


@pytest.mark.parametrize(
    ("file", "fields", "reason"),
    [
        ("added_tokens.json", {"<n>": 32100}, "the added tokens <n> are not read"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"32100": {"content": "<n>"}}},
            "the added tokens <n> are not read",
        ),
        (
            "added_tokens.json",
            {"<extra_id_0>": 32000, "<extra_id_1>": 32001},
            "the added <extra_id_0>, <extra_id_1> are not among the last 100 ids",
        ),
    ],
)
def test_added_tokens_beside_pieces_are_not_passed_over(folder, file, fields, reason):
    (folder / file).write_text(json.dumps(fields))
    assert tokenizer_of(folder) is None
    assert reason in missing_text(folder)


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("added_tokens.json", ["<n>"]),
        ("config.json", 3),
        ("tokenizer_config.json", "T5Tokenizer"),
        ("tokenizer_config.json", {"extra_ids": "many"}),
        ("tokenizer_config.json", {"extra_ids": None}),
        ("tokenizer_config.json", {"added_tokens_decoder": None}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"1": "<n>"}}),
        ("tokenizer_config.json", {"tokenizer_class": "ByT5Tokenizer", "extra_ids": "many"}),
        ("tokenizer_config.json", {"tokenizer_class": "ByT5Tokenizer", "extra_ids": -1}),
    ],
)
def test_what_transformers_does_not_write_is_said(folder, file, fields):
    (folder / file).write_text(json.dumps(fields))
    with pytest.raises(CheckpointError, match="is not as transformers writes it"):
        tokenizer_of(folder)
