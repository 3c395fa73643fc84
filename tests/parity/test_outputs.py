"""Variables, logits, losses and every gradient equal the original's."""

import numpy as np
import pytest
import tensorflow as tf


def test_the_config_builds_the_variables_of_the_checkpoint(recorded, model):
    stored = tf.train.load_checkpoint(str(recorded.folder / "model.ckpt-0"))
    shapes = stored.get_variable_to_shape_map()
    del shapes["global_step"]
    assert {n: v.shape.to_integer_list for n, v in model.variables.items()} == shapes


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_logits_and_loss(recorded, model, relative, mode):
    output = model(recorded.group("plain/"), mode)
    assert relative(output.logits, recorded[f"{mode}/logits"][0]) < 1e-5
    assert relative(output.loss, recorded[f"{mode}/loss"]) < 1e-5


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_loss_is_the_sum_of_its_parts(recorded, model, mode):
    output = model(recorded.group("plain/"), mode)
    parts = recorded.loss_parts(mode)
    assert [float(x) for x in output.losses.values()] == pytest.approx(parts, rel=1e-5)
    assert float(output.loss) == pytest.approx(sum(parts), rel=1e-5)


def test_packed_rows(recorded, model, relative):
    output = model(recorded.group("packed/"), "train")
    assert relative(output.logits, recorded["packed_train/logits"][0]) < 1e-5
    assert relative(output.loss, recorded["packed_train/loss"]) < 1e-5


def test_the_vocabulary_is_the_checkpoints(recorded, model):
    # The folders name no tokenizer; their tables have 100 ids and padding, 128 rows.
    output = model(recorded.group("plain/"))
    assert output.logits.shape.get_dim_by_name("vocab").size == 128


def test_score_is_the_likelihood_of_the_targets(recorded, model, relative):
    features = recorded.group("plain/")
    if "targets_segmentation" in features:
        pytest.skip("the rows are packed")
    cross_entropy = recorded["eval/token_xent"][0] * (features["targets"] > 0)
    assert relative(model.score(features), -np.sum(cross_entropy, axis=1)) < 1e-5


def test_every_gradient(recorded, model):
    found = {n: g.numpy() for n, g in model.gradients(recorded.group("plain/")).items()}
    right = recorded.group("grad/")
    assert found.keys() == right.keys()
    # The recorded ones are themselves off by up to 2.1e-5 of a variable's largest entry, ours by
    # less than 1e-5, as the recomputation in float64 (test_float64.py) tells.
    # A sum of large terms that nearly cancel has their rounding errors.
    rounding = 1e-7 * max(np.max(np.abs(gradient)) for gradient in right.values())
    for name, gradient in right.items():
        difference = np.max(np.abs(found[name] - gradient))
        assert difference < 3e-5 * np.max(np.abs(gradient)) + rounding, name


def test_norms_of_gradients_of_packed_rows(recorded, model):
    found = model.gradients(recorded.group("packed/"))
    right = recorded.group("packed_train/grad_norm/")
    assert found.keys() == right.keys()
    rounding = 1e-7 * max(right.values())
    for name, norm in right.items():
        found_norm = np.linalg.norm(found[name].numpy())
        np.testing.assert_allclose(found_norm, norm, 1e-5, rounding, err_msg=name)
