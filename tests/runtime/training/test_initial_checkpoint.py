"""A trainer that begins with a checkpoint of the original."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import CheckpointError, ConfigError
from mtf_models.runtime.training.initial_checkpoint import InitialCheckpoint, begin

FOLDER = Path(__file__).parents[2] / "fixtures" / "t5_1_1_tiny"
CONFIG = str(FOLDER / "operative_config.gin")
ADAPTERS = str(Path(__file__).parent / "adapters.gin")
BATCH = ("run.batch_size = 4", 'run.sequence_length = {"inputs": 12, "targets": 10}')
SIZES = ("make_bitransformer.input_vocab_size = 100", "make_bitransformer.output_vocab_size = 100")


@pytest.fixture(scope="module")
def recorded():
    return np.load(FOLDER / "io.npz")


@pytest.fixture(scope="module")
def batch(recorded):
    return {name: recorded[f"plain/{name}"] for name in ("inputs", "targets")}


@pytest.fixture(scope="module")
def stored():
    """What the checkpoint after three steps of the original holds."""
    reader = tf.train.load_checkpoint(str(FOLDER / "model.ckpt-3"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def trainer_of(*params, files=(CONFIG,)):
    model = mtf.build_model(list(files), [*BATCH, *SIZES, *params])
    return mtf.Trainer(model, learning_rate=0.01)


def test_the_steps_after_it_are_the_originals(recorded, batch):
    trainer = trainer_of()
    begin(trainer, InitialCheckpoint.find(FOLDER, 0))
    losses = [trainer.step(batch)["loss"] for _ in range(3)]
    np.testing.assert_allclose(losses, recorded["steps/loss_before"], 1e-4)


def test_slots_and_steps_are_taken_as_the_original_does(stored):
    trainer = trainer_of(f"run.init_checkpoint = '{FOLDER}'")
    begun = begin(trainer, InitialCheckpoint.find(trainer.model.settings.init_checkpoint))
    assert (begun.step, trainer.step_number, begun.new) == (3, 3, [])
    assert begun.slots_of == len(trainer.model.variables)
    for name, variable in trainer.variables.items():
        np.testing.assert_array_equal(variable.numpy(), stored[name])


def test_slots_can_be_fresh_and_steps_counted_from_zero(stored):
    trainer = trainer_of("run.init_optimizer = 'fresh'", "run.init_steps = 'zero'")
    begun = begin(trainer, InitialCheckpoint.find(FOLDER / "model.ckpt-3"))
    assert (begun.step, trainer.step_number, begun.slots_of) == (3, 0, 0)
    for name, variable in trainer.model.variables.items():
        np.testing.assert_array_equal(variable.numpy(), stored[name])
    for name in trainer.variables.keys() - trainer.model.variables.keys():
        assert not trainer.variables[name].numpy().any()


def test_a_filter_of_names_takes_those_alone(stored, caplog):
    trainer = trainer_of("tpu_estimator_model_fn.init_variable_filter = '^encoder/'")
    begun = begin(trainer, InitialCheckpoint.find(FOLDER))
    assert trainer.step_number == 0  # The original names it global_step, which was not asked for.
    assert {name.partition("/")[0] for name in begun.new} == {"decoder", "shared"}
    for name, variable in trainer.model.variables.items():
        taken = np.array_equal(variable.numpy(), stored[name])
        assert taken == name.startswith("encoder/"), name
    assert "decoder/logits/kernel" in caplog.text


def test_adapters_are_trained_and_nothing_else(batch, stored, caplog):
    trainer = trainer_of(files=(CONFIG, ADAPTERS))
    begun = begin(trainer, InitialCheckpoint.find(FOLDER))
    # A norm and two matrices in each of two blocks of two towers.
    assert len(begun.new) == len(trainer.trained) == 12
    assert begun.new[0] in caplog.text
    before = {v.name: v.numpy() for v in trainer.trained}
    metrics = trainer.step(batch)
    assert metrics["learning_rate"] == 0.01
    slots = trainer.variables.keys() - trainer.model.variables.keys()
    assert all("/task_adapter/" in name for name in slots)
    for name, variable in trainer.model.variables.items():
        if "/task_adapter/" in name:
            assert not np.array_equal(variable.numpy(), before[name])
        else:
            np.testing.assert_array_equal(variable.numpy(), stored[name])


def test_a_run_may_go_on_with_less(stored):
    trainer = trainer_of("run.variable_filter = '^encoder/'")
    trainer.restore(FOLDER, 3)
    assert trainer.step_number == 3
    assert all(variable.name.startswith("encoder/") for variable in trainer.trained)
    for name, variable in trainer.variables.items():
        np.testing.assert_array_equal(variable.numpy(), stored[name])


def test_a_filter_may_be_a_function():
    trainer = trainer_of(
        "run.variable_filter = @variable_filter_max_size", "variable_filter_max_size.max_size = 32"
    )
    assert {v.shape.size for v in trainer.trained} == {32}
    assert len(trainer.trained) == 2 * 2 + 2 * 3 + 2  # The norms.


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ("run.variable_filter = 'task_adaptor'", ["chooses none of the 52 variables"]),
        ("run.variable_filter = '('", ["run.variable_filter is '('", "no regular expression"]),
        ("run.init_steps = 'one'", ["run.init_steps is 'one'", "'checkpoint' or 'zero'"]),
    ],
)
def test_filters_and_choices_are_checked(bound, words):
    with pytest.raises(ConfigError) as refusal:
        trainer_of(bound)
    assert all(word in str(refusal.value) for word in words)


def test_nothing_is_left_at_random_where_that_is_an_error():
    strict = "run.init_strict = True"
    trainer = trainer_of(strict, "encoder/make_layer_stack.num_layers = 3")
    with pytest.raises(CheckpointError, match="missing in the checkpoint"):
        begin(trainer, InitialCheckpoint.find(FOLDER))
    trainer = trainer_of(strict, "encoder/make_layer_stack.num_layers = 1")
    with pytest.raises(CheckpointError, match="left over in the checkpoint"):
        begin(trainer, InitialCheckpoint.find(FOLDER))


@pytest.mark.parametrize(
    ("path", "step", "words"),
    [
        (FOLDER, 2, "no checkpoint of step 2; there are steps 0, 3"),
        (FOLDER / "model.ckpt-7", None, "its index is missing"),
        (FOLDER / "model.ckpt-0", 3, "is one checkpoint, and step 3 is asked for"),
        (FOLDER / "nowhere", None, "There is no checkpoint"),
        (FOLDER.parent, None, "has no checkpoint"),
        ("gs://bucket/model.ckpt-7", None, "is not on this machine"),
    ],
)
def test_a_checkpoint_that_is_not_there(path, step, words):
    with pytest.raises(CheckpointError, match=words):
        InitialCheckpoint.find(path, step)
