"""Options that change how a model is computed, and not what."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.optimize import AdamW

RECOMPUTE = "LayerStack.recompute_grads = True"
# What is dropped must be dropped again; without it the original's gradients are those to equal
# (tests/parity, recompute_grads).
DROPOUT = "dropout_rate = 0.3"
LAYOUT = "batch:batch,heads:model,d_ff:model,vocab:model"

each_name = pytest.mark.parametrize(
    "name", ["t5_tiny", pytest.param("lm_tiny", marks=pytest.mark.slow)]
)


def assert_same_gradients(found, right, tolerance):
    assert found.keys() == right.keys()
    for name, gradient in right.items():
        gradient = gradient.numpy()
        difference = np.max(np.abs(found[name].numpy() - gradient))
        assert difference <= tolerance * np.max(np.abs(gradient)), name


@each_name
def test_recomputed_activations_give_the_same_gradients(build, features, name):
    batch = features if name == "t5_tiny" else {"targets": features["targets"]}
    kept, recomputed = build(name, DROPOUT), build(name, DROPOUT, RECOMPUTE)
    assert float(recomputed(batch, "train").loss) == float(kept(batch, "train").loss)
    found = recomputed.gradients(batch)
    assert_same_gradients(found, kept.gradients(batch), 1e-5)
    assert not any(np.all(g.numpy() == 0) for g in found.values())


@pytest.mark.nightly
def test_recomputed_activations_on_a_mesh(build, features):
    mesh = mtf.Mesh("batch:2;model:4", layout=LAYOUT)
    params = [DROPOUT, "num_layers = 1"]
    recomputed = build("t5_tiny", *params, RECOMPUTE, mesh=mesh)
    kept = build("t5_tiny", *params)
    assert_same_gradients(recomputed.gradients(features), kept.gradients(features), 1e-5)


@each_name
def test_bfloat16_activations_are_close_to_float32(build, features, name):
    batch = features if name == "t5_tiny" else {"targets": features["targets"]}
    wide = build(name)
    narrow = build(name, "get_variable_dtype.activation_dtype = 'bfloat16'")
    found, right = narrow(batch), wide(batch)
    assert found.logits.dtype.name == "bfloat16"
    assert found.loss.dtype.name == "float32"
    assert float(found.loss) == pytest.approx(float(right.loss), rel=2**-7)
    real = batch["targets"] > 0
    difference = np.asarray(found.logits, np.float32)[real] - right.logits.numpy()[real]
    assert np.sqrt(np.mean(difference**2)) < 2**-6 * right.logits.numpy()[real].std()


def test_gradients_of_bfloat16_activations_are_float32_and_close(build, features):
    wide, narrow = (
        build("t5_tiny", "num_layers = 1", f"get_variable_dtype.activation_dtype = '{dtype}'")
        for dtype in ("float32", "bfloat16")
    )
    right = wide.gradients(features)
    for name, gradient in narrow.gradients(features).items():
        assert gradient.dtype.name == narrow.variables[name].dtype.name == "float32"
        off = np.linalg.norm(gradient.numpy() - right[name].numpy())
        assert off < 0.05 * np.linalg.norm(right[name].numpy()), name


PADDED = ["num_layers = 1", "Unitransformer.vocab_divisor = 1"]


@each_name
def test_a_vocabulary_padded_for_a_mesh_changes_nothing(build, features, name):
    batch = features if name == "t5_tiny" else {"targets": features["targets"]}
    mesh = mtf.Mesh("model:8", layout="vocab:model")
    padded, plain = build(name, *PADDED, mesh=mesh, pad_vocab=True), build(name, *PADDED)
    logits, right = padded(batch).logits, plain(batch).logits.numpy()
    assert logits.shape.get_dim_by_name("vocab").size == 104
    assert (logits.numpy()[..., 100:] == -np.inf).all()
    np.testing.assert_allclose(logits.numpy()[..., :100], right, atol=1e-5 * np.abs(right).max())
    for mode in ("train", "eval"):
        loss = float(plain(batch, mode).loss)
        assert float(padded(batch, mode).loss) == pytest.approx(loss, rel=1e-6)


def test_a_padded_vocabulary_trains_and_decodes_alike(build, features):
    mesh = mtf.Mesh("model:8", layout="vocab:model")
    params = [*PADDED, "Unitransformer.label_smoothing = 0.1"]
    batch = {"targets": features["targets"]}
    padded, plain = build("lm_tiny", *params, mesh=mesh, pad_vocab=True), build("lm_tiny", *params)
    losses = []
    for model in (plain, padded):
        # Adafactor's root mean squares are over all rows, those of the padding included.
        trainer = mtf.Trainer(model, AdamW(), learning_rate=0.01)
        losses.append([trainer.step(batch)["loss"] for _ in range(3)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert not padded.variables["transformer/embedding"].numpy()[100:].any()
    found, right = (
        m.decode({"inputs": features["inputs"][:, :2]}, max_decode_length=4)
        for m in (padded, plain)
    )
    np.testing.assert_array_equal(found.ids, right.ids)
    np.testing.assert_allclose(found.scores, right.scores, rtol=1e-5)
