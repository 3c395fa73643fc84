"""Vocabulary embeddings and heads: the numbers of the original's own tests and of the papers."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.vocab import Vocab
from mtf_models.transformer.vocab_adaptive import AdaptiveVocabEmbedding
from mtf_models.transformer.vocab_factorized import FactorizedVocabEmbedding
from mtf_models.transformer.vocab_mixtape import Mixtape
from mtf_models.transformer.vocab_mixture import MixtureOfSoftmaxes

HIDDEN = np.array([[1, 0], [0, 1], [1, 1], [2, 1]], np.float32)
ANTI = [[0, 1], [1, 0]]


@pytest.fixture(params=["", "batch:2;model:2"])
def mesh(request):
    return mtf.Mesh(request.param, layout="batch:batch,vocab:model")


def make(mesh, cls, size, width, values, real=None, **kwargs):
    """An embedding whose variables have these values."""
    vocab = Vocab(mtf.Dimension("vocab", size), classes=real or size, real=real or size)
    d_model = mtf.Dimension("d_model", width)
    store = mtf.VariableStore(mesh, seed=0)
    with store.eager():
        cls(mesh, vocab, d_model, mtf.VariableDType(), "embedding", **kwargs)
    assert store.variables.keys() == values.keys()
    for name, value in values.items():
        store.variables[name].assign(np.asarray(value, np.float32))
    with store.eager():
        return cls(mesh, vocab, d_model, mtf.VariableDType(), "embedding", **kwargs)


def embed(mesh, embedding, ids):
    ids = mtf.import_tf_tensor(mesh, np.asarray(ids, np.int32), f"batch:{len(ids)}")
    return embedding.ids_to_embedding(ids).numpy()


def logits(mesh, embedding, hidden):
    rows, width = np.shape(hidden)
    hidden = np.asarray(hidden, np.float32)
    x = mtf.import_tf_tensor(mesh, hidden, f"batch:{rows} d_model:{width}")
    return embedding.hidden_to_logits(x).numpy()


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def test_factorized(mesh):
    values = {"embedding1": [[1], [2], [3], [4]], "embedding2": [[1, 2]]}
    made = make(mesh, FactorizedVocabEmbedding, 4, 2, values, inner_dimension_size=1)
    right = [[1, 2], [2, 4], [3, 6], [2, 4]]
    np.testing.assert_allclose(embed(mesh, made, [0, 1, 2, 1]), right, rtol=1e-6)
    right = np.array([[1, 2, 3, 4], [2, 4, 6, 8], [3, 6, 9, 12], [4, 8, 12, 16]]) * 2**-0.5
    np.testing.assert_allclose(logits(mesh, made, HIDDEN), right, rtol=1e-6)


CLUSTERS = [
    {"token_count": 2, "embedding_size": 2},
    {"token_count": 3, "embedding_size": 1},
]
CLUSTER_VALUES = {
    "embedding_0": [[0, 1], [2, 0]],
    "embedding_1": [[1], [2], [3]],
    "embedding_1_projection": [[1, 2]],
}


def test_adaptive(mesh):
    made = make(mesh, AdaptiveVocabEmbedding, 6, 2, CLUSTER_VALUES, real=5, clusters=CLUSTERS)
    right = [[0, 1], [2, 0], [1, 2], [2, 4], [3, 6], [0, 1]]
    np.testing.assert_allclose(embed(mesh, made, [0, 1, 2, 3, 4, 0]), right, rtol=1e-6)
    right = [[0, 2, 1, 2, 3], [1, 0, 2, 4, 6], [1, 2, 3, 6, 9], [1, 4, 4, 8, 12]]
    found = logits(mesh, made, HIDDEN)
    np.testing.assert_allclose(found[:, :5], np.array(right) * 2**-0.5, rtol=1e-6)
    assert (found[:, 5] == 0).all()


@pytest.mark.parametrize(
    "clusters, message",
    [
        (CLUSTERS[:1], r"AdaptiveVocabEmbedding.clusters: .* add up to 2, and .* has 5 ids"),
        ([{"token_count": 5}], "cluster 0 has no 'embedding_size'"),
    ],
)
def test_clusters_that_are_not_the_vocabulary(clusters, message):
    with pytest.raises(ConfigError, match=message):
        make(mtf.Mesh(), AdaptiveVocabEmbedding, 5, 2, {}, clusters=clusters)


def test_mixture_of_softmaxes(mesh):
    values = {
        "embedding_embedding_weights": np.eye(3)[[0, 1, 2, 2]],
        "embedding_mixture_weights": [[1, 0, 0], [0, 1, 1]],
        "embedding_context_weights": [np.eye(3), np.eye(3)[::-1]],
    }
    made = make(mesh, MixtureOfSoftmaxes, 4, 3, values, num_softmaxes=2)
    found = logits(mesh, made, np.array([[1, 1, 2]] * 2) * 3**0.5)
    p = softmax(np.array([1.0, 3.0]))
    parts = softmax(np.tanh([1, 1, 2, 2])), softmax(np.tanh([2, 1, 1, 1]))
    right = np.log(p[0] * parts[0] + p[1] * parts[1])
    np.testing.assert_allclose(found, [right] * 2, rtol=1e-5)
    np.testing.assert_allclose(embed(mesh, made, [3, 0]), np.eye(3)[[2, 0]])


MIXTAPE = {
    "embedding_embedding_weights": np.arange(10).reshape(5, 2),
    "embedding_context_weights": [np.eye(2), ANTI, [[1, 0], [0, 0]], [[0, 0], [0, 1]]],
    "embedding_prior_weights": [[[1, 0]], [[0, 1]], [[1, 1]]],
    "embedding_prior_vocab_vector": [[1], [1]],
    "embedding_prior_gates_vector": [[1, 0], [0, 1], [1, 1]],
    "embedding_prior_bias": [[1, 2, 3], [3, 4, 5]],
}


def test_mixtape():
    mesh = mtf.Mesh("batch:2", layout="batch:batch")
    options = {"gate_embedding_size": 1, "frequent_token_fraction": 0.4}
    made = make(mesh, Mixtape, 5, 2, MIXTAPE, **options)
    found = logits(mesh, made, np.array([[1, 2]] * 2) * 2**0.5)
    right = [0.905462, 4.390559, 6.575162, 9.513036, 12.450909]
    np.testing.assert_allclose(found, [right] * 2, rtol=1e-5)
    np.testing.assert_allclose(embed(mesh, made, [4, 0]), [[8, 9], [0, 1]])


def test_extra_ids_of_mixtape_are_frequent():
    mesh = mtf.Mesh()
    # The gates of the second frequent id now are those of the last id.
    options = {"gate_embedding_size": 1, "frequent_token_fraction": 0.25, "extra_ids": 1}
    made = make(mesh, Mixtape, 5, 2, MIXTAPE, **options)
    found = logits(mesh, made, np.array([[1, 2]]) * 2**0.5)[0]
    assert found[0] == pytest.approx(0.905462, rel=1e-5)
    t = np.tanh([1.0, 2.0])
    contexts = np.array([t, t[::-1], [t[0], 0], [0, t[1]]])
    gates = 1 / (1 + np.exp(-(np.tanh([1, 2, 3]) + [1, 2, 3] + [3, 4, 5])))
    a, b, c = gates
    priors = np.array([a * b, a * (1 - b), (1 - a) * c, (1 - a) * (1 - c)])
    assert found[4] == pytest.approx(priors @ (contexts @ [8, 9]), rel=1e-5)
    with pytest.raises(ConfigError, match="makes 0 frequent ones"):
        make(mesh, Mixtape, 5, 2, {}, gate_embedding_size=1, frequent_token_fraction=0.0)


HEADS = {
    FactorizedVocabEmbedding: {"inner_dimension_size": 3},
    MixtureOfSoftmaxes: {"num_softmaxes": 2},
    Mixtape: {"gate_embedding_size": 2},
}


@pytest.mark.parametrize("cls", HEADS)
def test_padding_is_of_each_members_rows(cls):
    """In an ensemble the rows of a table are not its first dimension."""
    mesh, d_model = mtf.Mesh(), mtf.Dimension("d_model", 4)
    store = mtf.VariableStore(mesh, seed=0)
    vocab = Vocab(mtf.Dimension("vocab", 12), classes=10, real=10)
    with store.eager(), mtf.stacked_variables([mtf.Dimension("ensemble", 2)]):
        made = cls(mesh, vocab, d_model, mtf.VariableDType(), "embedding", **HEADS[cls])
    table = made.table.numpy()
    assert table.shape[:2] == (2, 12)
    assert (table[:, 10:] == 0).all() and (table[:, :10] != 0).all()


def test_a_mixture_of_softmaxes_learns_beside_padding(build):
    """The padded model has the losses and gradients of the other one."""
    params = (
        "num_layers = 1",
        "get_vocab_embedding_cls.cls = @MixtureOfSoftmaxes",
        "MixtureOfSoftmaxes.num_softmaxes = 2",
    )
    features = {"targets": np.array([[5, 7, 9, 4, 1], [11, 2, 3, 8, 1]], np.int32)}
    plain = build("lm_tiny", *params, seed=1)
    padded = build("lm_tiny", *params, "Unitransformer.pad_vocab_multiple = 96", seed=1)
    right, found = plain.gradients(features), padded.gradients(features)
    for name, gradient in right.items():
        here = found[name].numpy()[: gradient.shape.dims[0].size]
        np.testing.assert_allclose(here, gradient.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)
        assert np.isfinite(found[name].numpy()).all()
