"""Vocabularies by name: T5's, bytes, SentencePiece, WordPiece, and TFDS's subwords."""

import pytest
import sentencepiece
import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

from mtf_models.data.vocabularies.fingerprint import differences, fingerprint
from mtf_models.data.vocabularies.named import vocabulary_named
from mtf_models.data.vocabularies.training import train_vocabulary
from mtf_models.errors import DataError

PIECES = ["[PAD]", "[unused0]", "[UNK]", "the", "wor", "##ld", "is", ".", ","]
CORPUS = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog"] * 5


@pytest.fixture
def word_pieces(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n")
    return str(path)


@pytest.fixture
def subwords(tmp_path):
    build = tfds.deprecated.text.SubwordTextEncoder.build_from_corpus
    encoder = build(CORPUS, target_vocab_size=300)
    encoder.save_to_file(str(tmp_path / "v"))
    return encoder, str(tmp_path / "v.subwords")


def test_t5_and_its_sentinels():
    vocabulary = vocabulary_named("t5")
    assert vocabulary.vocab_size == 32100
    assert vocabulary.encode("<extra_id_0> <extra_id_99>") == [32099, 32000]
    assert vocabulary_named("t5", 0).vocab_size == 32000


def test_bytes_with_sentinels_at_the_end():
    vocabulary = vocabulary_named("bytes", 125)
    assert vocabulary.vocab_size == 384
    assert vocabulary.encode("A\u00e9") == [65 + 3, 0xC3 + 3, 0xA9 + 3]


def test_word_pieces_keep_the_ids_of_their_file(word_pieces):
    vocabulary = vocabulary_named(word_pieces, 10)
    expected = [3, 4, 5, 6, 8, 2, 7]
    assert vocabulary.encode("The world is, foo.") == expected
    in_graph = tf.function(vocabulary.encode_tf)(tf.constant("The world is, foo."))
    assert in_graph.dtype == tf.int32 and in_graph.numpy().tolist() == expected
    assert vocabulary.encode("") == []
    assert vocabulary.decode([3, 4, 5, 1, 6, 0, 0]) == "the world"
    assert (vocabulary.vocab_size, vocabulary.eos_id, vocabulary.unk_id) == (19, 1, 2)


def test_word_pieces_with_capitals_keep_capitals(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*PIECES, "The"]) + "\n")
    assert vocabulary_named(str(path)).encode("The the") == [9, 3]


def test_subwords_of_tfds_are_moved_up_by_one(subwords):
    encoder, path = subwords
    vocabulary = vocabulary_named(path)
    text = "the cat, na\u00efve"
    assert vocabulary.encode(text) == [number + 1 for number in encoder.encode(text)]
    assert vocabulary.decode([*vocabulary.encode(text), 1, 0]) == text
    assert vocabulary.vocab_size == encoder.vocab_size + 1
    in_graph = tf.function(vocabulary.encode_tf)(tf.constant(text))
    assert in_graph.numpy().tolist() == vocabulary.encode(text)


def test_a_trained_vocabulary_has_the_ids_of_t5s(tmp_path):
    path = tmp_path / "my.model"
    assert train_vocabulary(CORPUS, path, 20) == 20
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert [processor.id_to_piece(i) for i in range(3)] == ["<pad>", "</s>", "<unk>"]
    assert processor.bos_id() == -1
    vocabulary = vocabulary_named(str(path), 7)
    assert vocabulary.decode(vocabulary.encode("the dog sat")) == "the dog sat"
    assert vocabulary.vocab_size == 27


def test_too_few_texts_for_a_vocabulary(tmp_path):
    with pytest.raises(DataError, match=r"No vocabulary of 1000 pieces.*<= \d+.*--size"):
        train_vocabulary(CORPUS, tmp_path / "my.model", 1000)
    assert not (tmp_path / "my.model").exists()


def test_names_that_cannot_be_used(tmp_path):
    (tmp_path / "bad.model").write_bytes(b"no model")
    (tmp_path / "bad.txt").write_text("one\ntwo\n")
    (tmp_path / "bad.subwords").write_text("one\ntwo\n")
    messages = {
        "t6": "There is no vocabulary 't6': give \"t5\"",
        "none.model": "none.model is not there",
        str(tmp_path / "bad.model"): "no SentencePiece model",
        str(tmp_path / "bad.txt"): "in which line 1 is [PAD] and line 2 is [unused0]",
        str(tmp_path / "bad.subwords"): "no subword vocabulary of TFDS",
    }
    for name, message in messages.items():
        with pytest.raises(DataError) as caught:
            vocabulary_named(name)
        assert message in str(caught.value)


def test_pieces_with_other_special_ids_are_refused(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_prefix=str(tmp_path / "llama"), vocab_size=20
    )
    with pytest.raises(DataError, match="has pad -1 and end of sequence 2.*pad 0 and end"):
        vocabulary_named(str(tmp_path / "llama.model"))


def test_fingerprints_tell_contents_and_not_paths(tmp_path, word_pieces, subwords):
    train_vocabulary(CORPUS, tmp_path / "a.model", 19)
    train_vocabulary(CORPUS[:2] * 5, tmp_path / "b.model", 19)
    (tmp_path / "c.model").write_bytes((tmp_path / "a.model").read_bytes())
    a, b, c = (fingerprint(vocabulary_named(str(tmp_path / f"{n}.model"))) for n in "abc")
    assert a["sha256"] != b["sha256"]
    assert differences({"inputs": a}, {"inputs": c}) == []
    (text,) = differences({"inputs": a, "targets": a}, {"inputs": b})
    assert text.startswith(f"inputs: sha256 {a['sha256'][:12]}…, now {b['sha256'][:12]}…")
    assert "a.model" in text and "b.model" in text
    (text,) = differences(
        {"targets": fingerprint(vocabulary_named("t5"))},
        {"targets": fingerprint(vocabulary_named("t5", 0))},
    )
    assert text.startswith("targets: size 32100, now 32000, extra_ids 100, now 0")
    others = [word_pieces, subwords[1], "bytes"]
    kinds = {fingerprint(vocabulary_named(n))["kind"] for n in others}
    assert kinds == {"WordPieceVocabulary", "SubwordVocabulary", "ByteVocabulary"}
    assert fingerprint(seqio.PassThroughVocabulary(9)) != fingerprint(
        seqio.PassThroughVocabulary(8)
    )
