"""The vocabulary: how it is padded, and how ids and logits are scaled."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.transformer.vocab import Vocab, VocabEmbedding

D_MODEL = mtf.Dimension("d_model", 16)


@pytest.mark.parametrize(("real", "rows"), [(32100, 32128), (250100, 250112), (384, 384), (1, 128)])
def test_sizes_are_rounded_up_as_in_the_original(real, rows):
    vocab = Vocab.of_size(real, 128)
    assert (vocab.dim.size, vocab.classes, vocab.real) == (rows, rows, real)


@pytest.mark.parametrize(
    ("real", "divisor", "rows", "classes"),
    [(100, 1, 104, 100), (100, 128, 128, 128), (100, 12, 120, 108), (96, 1, 96, 96)],
)
def test_sizes_are_rounded_up_until_they_divide(real, divisor, rows, classes):
    vocab = Vocab.of_size(real, divisor, pad_multiple=8)
    assert (vocab.dim.size, vocab.classes, vocab.real) == (rows, classes, real)


def test_only_what_is_padded_beyond_the_config_is_masked():
    mesh = mtf.Mesh()
    vocab = Vocab(mtf.Dimension("vocab", 6), classes=4, real=3)
    logits = mtf.ones(mesh, [mtf.Dimension("length", 1), vocab.dim])
    assert vocab.mask_padding(logits).numpy().tolist() == [[1, 1, 1, 1, -np.inf, -np.inf]]
    found = vocab.mask_padding(logits, first=vocab.real).numpy().tolist()
    assert found == [[1, 1, 1, -np.inf, -np.inf, -np.inf]]
    unpadded = Vocab(mtf.Dimension("vocab", 6), classes=6, real=6)
    assert unpadded.mask_padding(logits) is logits


@pytest.mark.parametrize(("like_classifier", "inward", "outward"), [(False, 1, 0.25), (True, 4, 1)])
def test_scales_at_both_ends(like_classifier, inward, outward):
    mesh = mtf.Mesh()
    vocab = Vocab.of_size(8, 8)
    with mtf.VariableStore(mesh).eager():
        embedding = VocabEmbedding(
            mesh, vocab, D_MODEL, mtf.VariableDType(), "embedding", like_classifier
        )
    table = embedding.table.numpy()
    ids = mtf.import_tf_tensor(mesh, np.array([5, 0, 5], np.int32), "length:3")
    np.testing.assert_allclose(embedding.ids_to_embedding(ids), inward * table[[5, 0, 5]], 1e-6)
    hidden = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    logits = embedding.hidden_to_logits(mtf.import_tf_tensor(mesh, hidden, "length:3 d_model:16"))
    np.testing.assert_allclose(logits, outward * hidden @ table.T, rtol=1e-4, atol=1e-5)
