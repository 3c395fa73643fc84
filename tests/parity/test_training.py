"""Three steps of Adafactor equal the original's."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf


@pytest.fixture(scope="module")
def trained(recorded, load):
    """A trainer after three steps on the plain batch, and the losses before them."""
    trainer = mtf.Trainer(load(), learning_rate=float(recorded["steps/lr"]))
    features = recorded.group("plain/")
    return trainer, [trainer.step(features)["loss"] for _ in range(3)]


def test_losses(recorded, trained):
    trainer, losses = trained
    np.testing.assert_allclose(losses, recorded["steps/loss_before"], 1e-4)
    after = trainer.model(recorded.group("plain/"), "train").loss
    np.testing.assert_allclose(after, recorded["steps/loss_after"], 1e-4)


def test_names_are_those_of_the_checkpoint(recorded, trained):
    stored = tf.train.load_checkpoint(str(recorded.folder / "model.ckpt-3"))
    shapes = stored.get_variable_to_shape_map()
    assert stored.get_tensor("global_step") == trained[0].step_number
    del shapes["global_step"]
    assert {n: v.shape.to_integer_list for n, v in trained[0].variables.items()} == shapes


def test_what_is_written_has_the_names_and_shapes_of_the_original(recorded, trained, tmp_path):
    trainer, _ = trained
    written = tf.train.load_checkpoint(str(trainer.save(tmp_path / "run")))
    right = tf.train.load_checkpoint(str(recorded.folder / "model.ckpt-3"))
    assert written.get_variable_to_shape_map() == right.get_variable_to_shape_map()
    dtypes = written.get_variable_to_dtype_map()
    assert dtypes == right.get_variable_to_dtype_map()
    for name, variable in trainer.variables.items():
        np.testing.assert_array_equal(written.get_tensor(name), variable.numpy())


def test_values_are_those_of_the_checkpoint(recorded, trained):
    start = tf.train.load_checkpoint(str(recorded.folder / "model.ckpt-0"))
    end = tf.train.load_checkpoint(str(recorded.folder / "model.ckpt-3"))
    for name, variable in trained[0].variables.items():
        right = end.get_tensor(name)
        moved = right - (start.get_tensor(name) if start.has_tensor(name) else 0)
        if not variable.trainable and not np.any(moved):  # a teacher
            np.testing.assert_array_equal(variable.numpy(), right, err_msg=name)
            continue
        gradient = recorded.group("grad/").get(name.split("_slot_")[0])
        if gradient is not None and np.max(np.abs(gradient)) < 1e-7:
            continue  # The loss does not depend on it: rounding noise moved it.
        # Loosely: the first step is close to the sign of the gradient, even of rounding noise.
        off = np.linalg.norm(variable.numpy() - right) / np.linalg.norm(moved)
        assert off < 2e-3, name
