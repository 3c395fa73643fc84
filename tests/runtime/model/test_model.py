"""Calls of a model: what they return, what they refuse, when they compile."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def model(build):
    return build("t5_tiny")


@pytest.fixture(scope="module")
def lm(build):
    return build("lm_tiny")


def test_an_output_has_logits_a_loss_and_its_parts(model, features):
    output = model(features)
    assert output.logits.shape == mtf.Shape("batch:8 length:10 vocab:128")
    assert np.asarray(output.logits).shape == (8, 10, 128)
    assert float(output.loss) == pytest.approx(sum(map(float, output.losses.values())))
    assert list(output.losses) == ["cross_entropy"]


def test_evaluation_is_the_default(model, features):
    assert float(model(features).loss) == float(model(features, mode="eval").loss)
    # The z-loss is in training only.
    assert float(model(features).loss) < float(model(features, "train").loss)


def test_gradients_are_the_slopes_of_the_loss(model, features):
    name = "encoder/block_000/layer_000/SelfAttention/relative_attention_bias"
    gradient = model.gradients(features)[name].numpy()
    variable = model.variables[name]
    kept = variable.numpy()
    direction = gradient / np.linalg.norm(gradient)
    losses = []
    for step in (0.1, -0.1):
        variable.assign(kept + step * direction)
        losses.append(float(model(features, "train").loss))
    variable.assign(kept)
    slope = (losses[0] - losses[1]) / 0.2
    assert slope == pytest.approx(np.linalg.norm(gradient), rel=0.02)


def test_gradients_are_dense_and_under_the_variables_names(model, features):
    gradients = model.gradients(features)
    assert {n: g.shape for n, g in gradients.items()} == {
        n: v.shape for n, v in model.variables.items()
    }
    rows = gradients["shared/embedding"].numpy()
    read = np.union1d(features["inputs"], features["targets"])
    assert not np.delete(rows, read, axis=0).any()


def test_gradients_of_evaluation_lack_the_z_loss(model, features):
    train, evaluation = (model.gradients(features, mode) for mode in ("train", "eval"))
    name = "decoder/logits/kernel"
    assert (train[name].numpy() != evaluation[name].numpy()).any()


def test_parameters_are_counted(model):
    attention, gated = 4 * 32 * 32, 3 * 32 * 64
    encoder = 2 * (attention + gated + 2 * 32) + 32 + 8 * 32
    decoder = 2 * (2 * attention + gated + 3 * 32) + 32 + 8 * 32
    assert model.parameters == encoder + decoder + 2 * 128 * 32


def test_a_call_is_compiled_once_for_each_shape(build, features):
    model = build("t5_tiny", "num_layers = 1")
    small = {name: array[:2] for name, array in features.items()}
    for batch in (features, small, features, small):
        model(batch)
        model(batch, "train")
    assert [f.compilations for f in model._functions.values()] == [2, 2]


def test_an_assignment_is_seen_by_the_next_call(build, features):
    model = build("t5_tiny", "num_layers = 1")
    model(features)
    kernel = model.variables["decoder/logits/kernel"]
    kernel.assign(np.zeros(kernel.shape.to_integer_list))
    assert not model(features).logits.numpy().any()
    positions, real = features["targets"].size, np.count_nonzero(features["targets"])
    assert float(model(features).loss) == pytest.approx(np.log(128) * real / positions, rel=1e-5)


def test_score_counts_the_end_and_no_padding(model, features):
    logits = model(features).logits.numpy().astype(np.float64)
    targets = features["targets"]
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    right = np.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(model.score(features), np.sum(right * (targets > 0), 1), rtol=1e-5)


def test_score_is_of_one_sequence_a_row(model, features):
    packed = {**features, "targets_segmentation": np.sign(features["targets"])}
    with pytest.raises(DataError, match="targets_segmentation"):
        model.score(packed)


def test_targets_are_not_read_by_decode(model, features):
    alone = model.decode({"inputs": features["inputs"]}, max_decode_length=3)
    np.testing.assert_array_equal(model.decode(features, max_decode_length=3).ids, alone.ids)


ROW = np.array([[5, 1, 0]])


@pytest.mark.parametrize(
    ("features", "error"),
    [
        ({"targets": [[1]]}, "inputs is missing"),
        ({"inputs": [[1]], "inputs_segmentation": [[1]]}, "was given inputs_segmentation"),
        ({"inputs": [[1]], "prompt": [[1]]}, "prompt is not a feature"),
        ({"inputs": [[100]]}, "id 100"),
    ],
)
def test_what_decode_cannot_read_is_refused(model, features, error):
    with pytest.raises(DataError, match=error):
        model.decode({name: np.array(ids) for name, ids in features.items()})


@pytest.mark.parametrize("use", ["__call__", "gradients", "decode", "score"])
def test_features_without_names_are_refused(model, use):
    with pytest.raises(DataError, match="by name, such as .*; this is a ndarray"):
        getattr(model, use)(ROW)


@pytest.mark.parametrize("call", [lambda m, x: m(x, "infer"), lambda m, x: m.gradients(x, "infer")])
def test_other_modes_are_refused(model, features, call):
    with pytest.raises(ConfigError, match='no mode \'infer\'; take "train" or "eval"'):
        call(model, features)


@pytest.mark.parametrize(
    ("features", "errors"),
    [
        ({"inputs": ROW}, ["targets is missing"]),
        ({"targets": ROW, "target": ROW}, ["inputs is missing", "target is not a feature"]),
        ({"inputs": ROW, "targets": ROW + 97}, ["targets has the id 102 at [0, 0]", "0 to 99"]),
        ({"inputs": -ROW, "targets": ROW}, ["inputs has the id -5 at [0, 0] and 1 more"]),
        ({"inputs": ROW, "targets": -ROW}, ["targets has the id -5"]),
        ({"inputs": ROW[0], "targets": ROW}, ["inputs is int64 of shape [3]"]),
        ({"inputs": ROW * 1.0, "targets": ROW}, ["inputs is float64"]),
        ({"inputs": np.tile(ROW, [2, 1]), "targets": ROW}, ["the batch sizes differ"]),
        (
            {"inputs": ROW, "targets": ROW, "targets_position": ROW[:, :2]},
            ["targets_position is [1, 2]"],
        ),
    ],
)
def test_features_that_do_not_fit_are_refused(model, features, errors):
    with pytest.raises(DataError) as caught:
        model(features)
    for error in errors:
        assert error in str(caught.value)


def test_a_language_model_reads_targets_only_and_may_have_negative_ones(lm, features):
    assert lm({"targets": -features["targets"]}).logits.shape.dims[0].size == 8
    with pytest.raises(DataError, match="inputs is not a feature of this model"):
        lm(features)


def test_a_batch_that_does_not_divide_is_refused(build, features):
    model = build("t5_tiny", "num_layers = 1", mesh=mtf.Mesh("batch:4", layout="batch:batch"))
    with pytest.raises(mtf.MtfError, match="batch of size 6 does not divide over the 4 parts"):
        model({name: array[:6] for name, array in features.items()})
