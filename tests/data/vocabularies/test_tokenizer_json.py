"""The pieces of a tokenizer.json, as SentencePiece reads them and as they were before."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from mtf_models.data.vocabularies.tokenizer_json import Unread, pieces_of
from mtf_models.datasets.vocabs import t5_model
from mtf_models.errors import DataError

TEXTS = ("In the  beginning", "naïve ＡＢＣ, 日本 and ½", " “quoted”, 1,234.5 %", "")


def fields_of(path, changed=0.0):
    """A tokenizer.json of the same pieces, by transformers' form of it."""
    with open(path, "rb") as file:
        model = ModelProto.FromString(file.read())
    pieces = [[piece.piece, piece.score] for piece in model.pieces]
    pieces[100][1] += changed
    charsmap = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    steps = [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁"}]
    return {
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "model": {
            "type": "Unigram",
            "unk_id": 2,
            "vocab": [*pieces, ["<extra_id_1>", 0.0], ["<extra_id_0>", 0.0]],
        },
    }


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(fields):
        file = tmp_path / "tokenizer.json"
        file.write_text(json.dumps(fields))
        return file

    return write


def test_t5s_own_are_those_that_ship(written, tmp_path):
    found = pieces_of(written(fields_of(t5_model())))
    assert (str(found.path), found.extra_ids) == (t5_model(), 2)
    assert not (tmp_path / "cache").exists()


def test_others_encode_as_they_did(written, tmp_path):
    found = pieces_of(written(fields_of(t5_model(), changed=1e-3)))
    assert found.path.parent == tmp_path / "cache" / "mtf_models" / "vocabularies"
    ours, theirs = (SentencePieceProcessor(model_file=str(f)) for f in (found.path, t5_model()))
    assert (ours.pad_id(), ours.eos_id(), ours.unk_id()) == (0, 1, 2)
    assert ours.vocab_size() == theirs.vocab_size()
    for text in TEXTS:
        ids = theirs.encode(text)
        assert ours.encode(text) == ids
        assert ours.decode(ids) == theirs.decode(ids)


def test_many_may_write_at_once(written, tmp_path):
    file = written(fields_of(t5_model(), changed=1e-3))
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(pieces_of, [file] * 4))
    (path,) = (tmp_path / "cache" / "mtf_models" / "vocabularies").iterdir()
    assert found == {(path, 2)}
    assert SentencePieceProcessor(model_file=str(path)).vocab_size() == 32000


def test_a_full_disk_leaves_nothing(written, tmp_path, files_of_at_most):
    file = written(fields_of(t5_model(), changed=1e-3))
    with files_of_at_most(2**10), pytest.raises(DataError, match="cannot be written: .*Make room"):
        pieces_of(file)
    assert list((tmp_path / "cache" / "mtf_models" / "vocabularies").iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"type": "BPE", "vocab": {}}},
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": {"type": "ByteLevel"}},
        {"normalizer": None},
    ],
)
def test_other_kinds_are_not_read(written, changes):
    found = pieces_of(written({**fields_of(t5_model()), **changes}))
    assert found == Unread("tokenizer.json is not of SentencePiece's unigrams")


def test_what_sentencepiece_would_do_otherwise_is_said(written):
    fields = fields_of(t5_model())
    pieces, metaspace = fields["model"]["vocab"], fields["pre_tokenizer"]["pretokenizers"][1]
    listed = {"<pad>": 0, "<extra_id_1>": 32000, "<extra_id_0>": 32001}
    fields["added_tokens"] = [{"content": t, "id": i} for t, i in listed.items()]
    assert pieces_of(written(fields)).extra_ids == 2
    fields["added_tokens"] += [{"content": "<n>", "id": 32002}, {"content": "<m>", "id": 32003}]
    assert "the added tokens <n>, <m> are not read" in pieces_of(written(fields)).reason
    metaspace["prepend_scheme"] = "never"
    fields["model"]["vocab"] = [*pieces, ["last", -1.0]]
    reason = pieces_of(written(fields)).reason
    assert "added <extra_id_1>, <extra_id_0> are not among the last 2 ids" in reason
    assert "2 sentinels are not the last pieces" in reason
    assert "prepend_scheme of Metaspace is 'never', and 'always' is read" in reason


def test_without_a_piece_for_the_unknown_it_is_not_read(written):
    fields = fields_of(t5_model())
    fields["model"]["unk_id"] = None
    assert "no piece stands for what is unknown" in pieces_of(written(fields)).reason


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "Precompiled"}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": 3}},
        {"model": {"type": "Unigram", "unk_id": 2}},
        {"model": {"type": "Unigram", "unk_id": 2, "vocab": ["<pad>", "</s>"]}},
        {"model": ["Unigram"]},
        {"added_tokens": [{"id": 3}]},
        {"added_tokens": ["<n>"]},
    ],
    ids=str,
)
def test_what_transformers_does_not_write_is_said(written, changes):
    with pytest.raises(DataError, match=r"tokenizer.json .*\. Copy it again\."):
        pieces_of(written({**fields_of(t5_model()), **changes}))


@pytest.mark.parametrize("fields", [[], "text", 3, None])
def test_what_is_no_object(written, fields):
    with pytest.raises(DataError, match="not as transformers writes it"):
        pieces_of(written(fields))


def test_what_is_no_json(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        pieces_of(tmp_path / "tokenizer.json")
