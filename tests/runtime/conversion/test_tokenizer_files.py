"""What is said of the files of a tokenizer that are copied."""

import json

import pytest

from mtf_models.runtime.conversion.tokenizer_files import copy


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ({}, "spiece.model (seqio.SentencePieceVocabulary reads it)"),
        (
            {"<n>": 32100},
            "spiece.model, added_tokens.json (copied for transformers; no vocabulary here reads "
            "them)",
        ),
    ],
)
def test_pieces_with_added_tokens_are_copied_and_not_called_readable(tmp_path, added, said):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "spiece.model").write_bytes(b"pieces")
    (source / "added_tokens.json").write_text(json.dumps(added))
    assert copy(source, target) == said
    for file in source.iterdir():
        assert (target / file.name).read_bytes() == file.read_bytes()
