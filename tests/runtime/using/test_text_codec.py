"""Texts inside a graph are encoded and decoded as SeqIO does outside of it."""

import numpy as np
import pytest
import seqio
import tensorflow as tf

from mtf_models.datasets.vocabs import arpabet_model, t5_model
from mtf_models.runtime.using.text_codec import codec_of

VOCABULARIES = {
    "bytes": seqio.ByteVocabulary(),
    "bytes and sentinels": seqio.ByteVocabulary(extra_ids=100),
    "pieces and sentinels": seqio.SentencePieceVocabulary(t5_model(), extra_ids=100),
    "phonemes": seqio.SentencePieceVocabulary(arpabet_model()),
}
TEXTS = [
    "",
    " ",
    "In the beginning",
    "été — 語 \U0001f600",
    "two\nlines",
    "<extra_id_0> a",
    "x" * 99,
]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_ids_are_those_of_seqio(name):
    vocabulary = VOCABULARIES[name]
    found = codec_of(vocabulary).encode(tf.constant(TEXTS)).to_list()
    assert found == [list(vocabulary.encode(text)) for text in TEXTS]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_texts_are_those_of_seqio(name):
    vocabulary = VOCABULARIES[name]
    draw = np.random.default_rng(0)
    # Ends, padding between ids, bytes that are no UTF-8, ids beyond the vocabulary.
    ids = draw.integers(0, vocabulary.vocab_size + 30, [200, 12]) * (draw.random([200, 12]) < 0.9)
    ids[:50] = draw.integers(0, 40, [50, 12])
    ids[0], ids[1, 0] = 0, 1
    found = codec_of(vocabulary).decode(tf.constant(ids, tf.int32)).numpy().tolist()
    expected = [vocabulary.decode(np.trim_zeros(row, "b").tolist()) for row in ids]
    assert [text.decode() for text in found] == expected
