"""An ensemble is its members side by side."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer import ensembles

LENGTHS = {"inputs": 12, "targets": 10}
TWO = "Unitransformer.ensemble = 2"
SMALL = ("num_layers = 1", "d_model = 16", "d_ff = 16", "num_heads = 2")


@pytest.fixture(scope="module")
def features(sentences, rows):
    return rows.unpacked(sentences, LENGTHS)


@pytest.fixture(scope="module")
def members(build):
    """Two single models; made anew, their values can be changed."""
    return [build("t5_tiny", *SMALL, seed=seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def together(build, members):
    """Makes ensembles of the two."""

    def together(*params, mesh=None):
        model = build("t5_tiny", *SMALL, TWO, *params, mesh=mesh)
        for name, variable in model.variables.items():
            assert variable.shape.dims[0] == mtf.Dimension("ensemble", 2)
            variable.assign(np.stack([m.variables[name].numpy() for m in members]))
        return model

    return together


@pytest.fixture(scope="module")
def ensemble(together):
    return together()


def log_softmax(logits):
    wide = np.asarray(logits).astype(np.float64)
    return wide - np.log(np.sum(np.exp(wide), axis=-1, keepdims=True))


def test_logits_are_of_the_mean_probability_and_losses_add_up(ensemble, members, features):
    outputs = [model(features) for model in members]
    mean = np.log(np.mean([np.exp(log_softmax(o.logits)) for o in outputs], axis=0))
    found = ensemble(features)
    np.testing.assert_allclose(found.logits, mean, rtol=1e-4)
    assert float(found.loss) == pytest.approx(sum(float(o.loss) for o in outputs), rel=1e-5)


def test_each_member_learns_as_if_alone(ensemble, members, features):
    found = ensemble.gradients(features)
    for i, model in enumerate(members):
        for name, right in model.gradients(features).items():
            off = np.max(np.abs(found[name].numpy()[i] - right.numpy()))
            assert off < 1e-5 * np.max(np.abs(right.numpy())), name


def test_members_learn_from_batches_of_their_own(together, members, features):
    model = together("run.ensemble_inputs = 2", "LayerStack.recompute_grads = True")
    halves = [{n: x[i : i + 2] for n, x in features.items()} for i in (0, 2)]
    right = [m(half, "train") for m, half in zip(members, halves, strict=True)]
    found = model(features, "train")
    assert float(found.loss) == pytest.approx(sum(float(o.loss) for o in right), rel=1e-5)
    for i in range(2):
        np.testing.assert_allclose(found.logits.numpy()[i], right[i].logits, rtol=1e-4, atol=1e-5)
    grads = model.gradients(features)
    for i, (member, half) in enumerate(zip(members, halves, strict=True)):
        for name, gradient in member.gradients(half).items():
            off = np.max(np.abs(grads[name].numpy()[i] - gradient.numpy()))
            assert off < 1e-5 * np.max(np.abs(gradient.numpy())), name
    with pytest.raises(ConfigError, match="3 rows cannot be given out to the 2 members"):
        model({n: x[:3] for n, x in features.items()}, "train")


@pytest.mark.parametrize("half", [None, 2])
def test_the_z_losses_of_attention_add_up(build, features, half):
    params = (*SMALL, "SelfAttention.z_loss_coeff = 0.1")
    singles = [build("t5_tiny", *params, seed=seed) for seed in (1, 2)]
    model = build("t5_tiny", *params, TWO, f"run.ensemble_inputs = {half}")
    for name, variable in model.variables.items():
        variable.assign(np.stack([m.variables[name].numpy() for m in singles]))
    given = [{n: x[i : i + (half or 4)] for n, x in features.items()} for i in (0, half or 0)]
    right = [m(x, "train").losses for m, x in zip(singles, given, strict=True)]
    found = model(features, "train").losses
    for name, value in found.items():
        assert float(value) == pytest.approx(sum(float(r[name]) for r in right), rel=1e-5), name
    assert sum("attention_z_loss" in name for name in found) == 3


def test_decoding_takes_the_most_likely_of_all(ensemble, features):
    result = ensemble.decode({"inputs": features["inputs"]}, max_decode_length=5)
    scored = ensemble.score({"inputs": features["inputs"], "targets": result.ids})
    chosen = np.asarray(result.ids).all(axis=1)
    assert chosen.any()
    np.testing.assert_allclose(
        np.asarray(result.scores)[chosen], np.asarray(scored)[chosen], rtol=1e-4
    )


def test_members_on_devices_of_their_own(together, ensemble, features):
    rules = "ensemble:ensemble,batch:batch,heads:model,d_ff:model,vocab:model"
    model = together(mesh=mtf.Mesh("ensemble:2;model:2", layout=rules))
    kernel = model.variables["encoder/block_000/layer_001/DenseReluDense/wo/kernel"]
    assert kernel.layout == ("ensemble", "model", None)
    right, found = ensemble(features), model(features)
    np.testing.assert_allclose(found.logits.numpy(), right.logits.numpy(), rtol=1e-4, atol=1e-5)
    assert float(found.loss) == pytest.approx(float(right.loss), rel=1e-5)


def test_a_language_model_with_positions_and_an_ensemble(build, sentences, rows):
    params = (
        *SMALL,
        "transformer.Unitransformer.positional_embedding = True",
        "transformer.Unitransformer.max_length = 16",
        "transformer.Unitransformer.shared_embedding_and_softmax_weights = False",
    )
    targets = rows.packed({"targets": sentences["targets"]}, {"targets": 10}, [[0, 1], [2], [3]])
    singles = [build("lm_tiny", *params, seed=seed) for seed in (1, 2)]
    model = build("lm_tiny", *params, TWO)
    for name, variable in model.variables.items():
        variable.assign(np.stack([m.variables[name].numpy() for m in singles]))
    mean = np.log(np.mean([np.exp(log_softmax(m(targets).logits)) for m in singles], axis=0))
    np.testing.assert_allclose(model(targets).logits, mean, rtol=1e-4)


def test_other_reductions():
    mesh = mtf.Mesh()
    values = np.random.default_rng(0).normal(size=[2, 3, 4]).astype(np.float32)
    logits = mtf.import_tf_tensor(mesh, values, "ensemble:2 batch:3 vocab:4")
    dims = logits.shape.dims[0], logits.shape.dims[2]
    mean = ensembles.reduce_ensemble_logits_mean_logit(logits, *dims)
    np.testing.assert_allclose(mean, values.mean(axis=0), rtol=1e-6)
    second = ensembles.reduce_ensemble_logits_select(logits, *dims, model_id=1)
    np.testing.assert_array_equal(second, values[1])
    with pytest.raises(ConfigError, match="members 0 to 1"):
        ensembles.reduce_ensemble_logits_select(logits, *dims, model_id=2)


def test_the_mean_probability_has_gradients_where_classes_are_padded():
    mesh = mtf.Mesh()
    values = np.array([[[0.5, 1.0, -np.inf]], [[2.0, 0.25, -np.inf]]], np.float32)
    logits = mtf.import_tf_tensor(mesh, values, "ensemble:2 batch:1 vocab:3")
    dims = logits.shape.dims[0], logits.shape.dims[2]
    with tf.GradientTape() as tape:
        tape.watch(logits.value)
        mean = ensembles.reduce_ensemble_logits_mean_prob(logits, *dims)
        loss = mtf.slice(mean, 0, 1, "vocab").value
    p = np.exp(values) / np.exp(values).sum(axis=-1, keepdims=True)
    share = p[..., :1] / p[..., :1].sum(axis=0)
    right = share * (np.array([1.0, 0.0, 0.0]) - p)
    np.testing.assert_allclose(tape.gradient(loss, logits.value), right, rtol=1e-5)


def test_what_does_not_fit_is_refused(build):
    with pytest.raises(ConfigError, match=r"ensemble_inputs is 3.*is an ensemble of 2"):
        build("t5_tiny", TWO, "run.ensemble_inputs = 3")
    with pytest.raises(ConfigError, match=r"ensemble_inputs is 2.*no ensemble"):
        build("t5_tiny", "run.ensemble_inputs = 2")
    with pytest.raises(ConfigError, match="ensembles of different size"):
        build("t5_tiny", "encoder/Unitransformer.ensemble = 2")
    for name in ("MoE1D", "MoE2D"):
        experts = f"encoder/make_layer_stack.layers = [@moe.{name}]"
        with pytest.raises(ConfigError, match=f"{name} is a mixture of experts, which an ensemble"):
            build("t5_tiny", TWO, experts)
    kernel = '[(@Conv1DLayer, {"filter_size": 3, "output_size": 16})]'
    with pytest.raises(ConfigError, match="Conv1DLayer/conv2d is a convolution.*an ensemble"):
        build("t5_tiny", *SMALL, TWO, f"encoder/make_layer_stack.layers = {kernel}")
    with pytest.raises(ConfigError, match="ensemble = 0; give whole numbers from 1"):
        build("t5_tiny", "Unitransformer.ensemble = 0")
