"""The adaptive softmax against NumPy, by the labels and positions of the original's own test."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError

TARGETS = np.array([[2, 4, 4, 6, 2, 5, 7, 5, 2, 1, 6, 7, 0, 0, 3, 2]])
# Of these targets, with three ids in the head and in the first tail and two in the second.
HEAD_LABELS = np.array([2, 3, 3, 4, 2, 3, 4, 3, 2, 1, 4, 4, 0, 0, 3, 2])
TAIL_POSITIONS = {1: [1, 2, 5, 7, 14], 2: [3, 6]}
BEGINS = {1: 3, 2: 6}
CLUSTERS = [
    {"token_count": 3, "embedding_size": 32},
    {"token_count": 3, "embedding_size": 8, "length_projection_factor": 0.5},
    {"token_count": 2, "embedding_size": 4, "length_projection_factor": 0.125},
]
BOUND = [
    "num_layers = 1",
    "utils.run.sequence_length = {'targets': 16}",
    "make_bitransformer.input_vocab_size = 8",
    "make_bitransformer.output_vocab_size = 8",
    "Unitransformer.vocab_divisor = 8",
    "Unitransformer.shared_embedding_and_softmax_weights = True",
    "get_vocab_embedding_cls.cls = @AdaptiveSoftmaxVocabEmbedding",
    f"AdaptiveSoftmaxVocabEmbedding.clusters = {CLUSTERS}",
]
LOSS = "Unitransformer.loss_fn = @adaptive_softmax_loss_fn"


@pytest.fixture(scope="module")
def build(request):
    file = str(request.config.rootpath / "tests" / "transformer" / "lm_tiny.gin")
    return lambda *params, mesh=None: mtf.build_model([file], [*BOUND, *params], mesh)


@pytest.fixture(scope="module")
def model(build):
    return build(LOSS)


def log_probabilities(model):
    """Of all ids and, apart, of the classes of the head: [length, 8], [length, 5]."""
    probabilities = np.exp(model({"targets": TARGETS}).logits.numpy()[0].astype(np.float64))
    tails = [
        probabilities[:, 3:6].sum(-1, keepdims=True),
        probabilities[:, 6:].sum(-1, keepdims=True),
    ]
    return np.log(probabilities), np.log(np.concatenate([probabilities[:, :3], *tails], -1))


def test_logits_are_log_probabilities(model):
    logits, _ = log_probabilities(model)
    np.testing.assert_allclose(np.exp(logits).sum(-1), 1, rtol=1e-5)
    names = {name: v.shape.to_integer_list for name, v in model.variables.items()}
    assert names["transformer/embedding_tails"] == [2, 32]
    assert names["transformer/embedding_2_projection"] == [4, 32]


@pytest.mark.parametrize("factor", [0.125, 0.1])
def test_the_loss_is_of_the_head_and_of_the_first_positions_of_each_tail(build, factor):
    # The second tail has two of 16 positions: a part of one counts as one.
    clusters = [*CLUSTERS[:2], {**CLUSTERS[2], "length_projection_factor": factor}]
    model = build(LOSS, f"AdaptiveSoftmaxVocabEmbedding.clusters = {clusters}")
    logits, head = log_probabilities(model)
    targets = TARGETS[0]
    real = np.flatnonzero(targets)
    right = -head[real, HEAD_LABELS[real]].sum()
    for tail, positions in TAIL_POSITIONS.items():
        inside = logits[positions, targets[positions]] - head[positions, 2 + tail]
        right -= inside.sum()
    found = model({"targets": TARGETS}).losses["cross_entropy"]
    assert float(found) == pytest.approx(right / 16, rel=1e-5)


def test_each_softmax_has_its_z_loss_in_training(build):
    model = build(LOSS, "Unitransformer.z_loss = 0.1")
    # So that all logits are 0, and the partition function of a softmax its number of classes.
    scale = model.variables["transformer/rms_norm/scale"]
    scale.assign(np.zeros(scale.shape.to_integer_list))
    counts = {5: np.count_nonzero(TARGETS), 3: len(TAIL_POSITIONS[1]), 2: len(TAIL_POSITIONS[2])}
    right = sum(n * np.log(classes) for classes, n in counts.items())
    squares = sum(n * np.log(classes) ** 2 for classes, n in counts.items())
    for mode, wanted in {"eval": right, "train": right + 0.1 * squares}.items():
        found = model({"targets": TARGETS}, mode).losses["cross_entropy"]
        assert float(found) == pytest.approx(wanted / 16, rel=1e-5)


def test_it_decodes_what_is_most_likely(model):
    ids = model.decode({"inputs": TARGETS[:, :4]}, max_decode_length=5).ids.numpy()[0]
    whole = np.zeros([1, 16], np.int64)
    whole[0, : len(ids)] = ids
    logits = model({"targets": whole}).logits.numpy()[0]
    assert ids[4] == logits[4].argmax()


@pytest.mark.nightly
def test_layouts_do_not_change_gradients(build, model):
    rows = {"targets": np.tile(TARGETS, (2, 1))}
    right = {name: g.numpy() for name, g in model.gradients(rows).items()}
    mesh = mtf.Mesh("batch:2;model:2", layout="batch:batch,d_model:model,vocab:model")
    for name, gradient in build(LOSS, mesh=mesh).gradients(rows).items():
        np.testing.assert_allclose(gradient.numpy(), right[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([f"AdaptiveSoftmaxVocabEmbedding.clusters = {CLUSTERS[:1]}"], "there are 1; give at"),
        (
            [f"AdaptiveSoftmaxVocabEmbedding.clusters = {[CLUSTERS[0], CLUSTERS[0]]}"],
            "cluster 1 has the length_projection_factor None",
        ),
        ([LOSS, "Unitransformer.label_smoothing = 0.1"], "knows no label smoothing"),
        ([LOSS, "get_vocab_embedding_cls.cls = @VocabEmbedding"], "is of AdaptiveSoftmaxVocab"),
    ],
)
def test_refusals(build, params, message):
    with pytest.raises(ConfigError, match=message):
        build(*params)
