"""Training steps: what they return, when they compile, micro-batches, saving and restoring."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import CheckpointError, ConfigError, MtfError
from mtf_models.optimize import AdamWithMultiLRSchedule
from mtf_models.optimize.sgd import SgdOptimizer

ONE_BLOCK = "num_layers = 1"


@pytest.fixture
def build_lm(build):
    """A language model of one block compiles quickly."""
    return lambda *params, **kwargs: build("lm_tiny", ONE_BLOCK, *params, **kwargs)


@pytest.fixture
def model(build_lm):
    return build_lm()


@pytest.fixture
def batch(features):
    return {"targets": features["targets"]}


def test_a_step_returns_the_loss_before_it(model, batch):
    before = float(model(batch, "train").loss)
    metrics = mtf.Trainer(model, learning_rate=0.01).step(batch)
    assert metrics["loss"] == pytest.approx(before, rel=1e-6)
    assert metrics["cross_entropy"] == metrics["loss"]
    assert metrics["learning_rate"] == pytest.approx(0.01)
    assert metrics["step"] == 1
    assert all(isinstance(value, float) for value in metrics.values())


def test_training_learns_a_batch(model, batch):
    trainer = mtf.Trainer(model, learning_rate=0.05)
    losses = [trainer.step(batch)["loss"] for _ in range(30)]
    assert losses[-1] < losses[0] / 3
    assert float(model(batch, "train").loss) < losses[-1]


def test_plain_descent_moves_by_the_gradient(model, batch):
    before = {name: variable.numpy() for name, variable in model.variables.items()}
    gradients = {name: g.numpy() for name, g in model.gradients(batch).items()}
    mtf.Trainer(model, optimizer=SgdOptimizer(), learning_rate=0.5).step(batch)
    for name, variable in model.variables.items():
        right = before[name] - 0.5 * gradients[name]
        np.testing.assert_allclose(variable.numpy(), right, rtol=1e-5, atol=1e-6, err_msg=name)


def test_other_batch_do_not_compile_anew(model, batch):
    trainer = mtf.Trainer(model, learning_rate=0.1)
    for _ in range(2):
        trainer.step(batch)
        trainer.step({name: array[::-1] for name, array in batch.items()})
    assert trainer._step.compilations == 1
    trainer.step({name: array[:4] for name, array in batch.items()})
    assert trainer._step.compilations == 2


def test_the_first_step_of_a_fresh_model_is_traced_once(model, batch, monkeypatch):
    traced, make = [], mtf.Trainer.compute_step

    def counted(trainer, inputs):
        traced.append(inputs)
        return make(trainer, inputs)

    monkeypatch.setattr(mtf.Trainer, "compute_step", counted)
    mtf.Trainer(model, learning_rate=0.1).step(batch)
    assert len(traced) == 1


@pytest.mark.parametrize(
    ("params", "argument", "rates"),
    [
        # Noam: the reciprocal of the root of the step, constant for the first 10,000.
        ([], None, [0.01, 0.01]),
        (["run.learning_rate_schedule = 0.25"], None, [0.25, 0.25]),
        ([], 0.125, [0.125, 0.125]),
        ([], lambda step, total: (step + 1) / total, [1 / 8, 2 / 8]),
        (["run.train_steps = 4"], lambda step, total: (step + 1) / total, [1 / 4, 2 / 4]),
    ],
)
def test_learning_rates(build_lm, params, argument, rates):
    steps = [] if "run.train_steps = 4" in params else ["run.train_steps = 8"]
    model = build_lm(*steps, *params)
    trainer = mtf.Trainer(model, learning_rate=argument)
    assert [trainer.learning_rate(step) for step in range(2)] == pytest.approx(rates, rel=1e-6)


@pytest.mark.parametrize(
    ("params", "slots"),
    [
        ([], {"_slot_v"}),
        (["AdafactorOptimizer.min_dim_size_to_factor = 32"], {"_slot_v", "_slot_vr", "_slot_vc"}),
        (["run.optimizer = @AdamWeightDecayOptimizer"], {"/adam_m", "/adam_v"}),
    ],
)
def test_the_config_says_the_optimizer(build_lm, batch, params, slots):
    model = build_lm(*params)
    trainer = mtf.Trainer(model, learning_rate=0.01)
    trainer.step(batch)
    names = trainer.variables.keys() - model.variables.keys()
    found = {
        name[len(max((v for v in model.variables if name.startswith(v)), key=len)) :]
        for name in names
    }
    assert found == slots


ALSO = [("t5_tiny", 50), ("lm_tiny", 20)]
TOKENS = [("t5_tiny", 12), *(pytest.param(*c, marks=pytest.mark.slow) for c in ALSO)]
MICROBATCHES = "serialize_num_microbatches.tokens_per_microbatch_per_replica"


@pytest.mark.parametrize(("name", "tokens"), TOKENS)
def test_micro_batches_are_the_whole_batch(build, features, name, tokens):
    whole = build(name, ONE_BLOCK)
    parts = build(name, ONE_BLOCK, f"{MICROBATCHES} = {tokens}")
    batch = features if name == "t5_tiny" else {"targets": features["targets"]}
    results = []
    for model in (whole, parts):
        trainer = mtf.Trainer(model, optimizer=SgdOptimizer(), learning_rate=0.1)
        results.append([trainer.step(batch)["loss"] for _ in range(2)])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    for variable, right in zip(parts.variables.values(), whole.variables.values(), strict=True):
        np.testing.assert_allclose(variable.numpy(), right.numpy(), rtol=1e-5, atol=1e-6)


def test_micro_batches_draw_dropout_of_their_own(build_lm):
    # Eight times the same row in eight micro-batches: with the same masks in each, the loss would
    # be that of one row.
    row = np.array([[5, 6, 7, 1]])
    params = ["dropout_rate = 0.5", f"{MICROBATCHES} = 4"]
    losses = []
    for rows in (1, 8):
        trainer = mtf.Trainer(build_lm(*params), learning_rate=0.0)
        losses.append(trainer.step({"targets": np.repeat(row, rows, axis=0)})["loss"])
    assert losses[0] != pytest.approx(losses[1], rel=1e-4)


def test_every_step_draws_dropout_anew_and_a_rerun_draws_it_again(build_lm, batch):
    runs = []
    for _ in range(2):
        trainer = mtf.Trainer(build_lm("dropout_rate = 0.3"), learning_rate=0.0)
        runs.append([trainer.step(batch)["loss"] for _ in range(3)])
    assert len(set(runs[0])) == 3
    assert runs[0] == runs[1]


def test_a_loss_that_is_not_finite_ends_training(model, batch):
    embedding = model.variables["transformer/embedding"]
    embedding.assign(np.full(embedding.shape.to_integer_list, np.inf))
    with pytest.raises(MtfError, match="loss of step 1 is nan.*lower learning rate") as caught:
        mtf.Trainer(model, learning_rate=0.01).step(batch)
    assert caught.value.exit_status == 1


def test_a_restored_run_is_the_uninterrupted_run(build_lm, batch, tmp_path):
    params = ["dropout_rate = 0.3"]
    trainer = mtf.Trainer(build_lm(*params), learning_rate=0.01)
    for _ in range(2):
        trainer.step(batch)
    path = trainer.save(tmp_path, extra={"position": [1, 2]})
    assert path.name == "model.ckpt-2"
    losses = [trainer.step(batch)["loss"] for _ in range(2)]

    resumed = mtf.Trainer(build_lm(*params), learning_rate=0.01)
    assert resumed.restore(tmp_path, 2) == {"position": [1, 2]}
    assert resumed.step_number == 2
    assert [resumed.step(batch)["loss"] for _ in range(2)] == losses
    for name, variable in trainer.variables.items():
        np.testing.assert_array_equal(resumed.variables[name].numpy(), variable.numpy())


def test_a_checkpoint_of_another_optimizer_is_refused_and_changes_nothing(
    build_lm, batch, tmp_path
):
    trainer = mtf.Trainer(build_lm(), learning_rate=0.01)
    trainer.step(batch)
    trainer.save(tmp_path)
    other = mtf.Trainer(build_lm(seed=5), optimizer=SgdOptimizer())
    before = other.model.variables["transformer/embedding"].numpy()
    with pytest.raises(CheckpointError, match="left over in the checkpoint"):
        other.restore(tmp_path, 1)
    assert other.step_number == 0
    np.testing.assert_array_equal(other.model.variables["transformer/embedding"].numpy(), before)


def steps_in(folder):
    return sorted(int(file.stem.rpartition("-")[2]) for file in folder.glob("*.index"))


def test_a_trainer_replaces_its_own_checkpoints_and_keeps_as_many_as_the_config_says(
    build_lm, batch, tmp_path
):
    keeps = "run.keep_checkpoint_max = 2"
    trainer = mtf.Trainer(build_lm(keeps), learning_rate=0.01)
    for _ in range(3):
        trainer.step(batch)
        trainer.save(tmp_path)
    assert steps_in(tmp_path) == [2, 3]
    trainer.save(tmp_path, extra={"again": True})
    assert trainer.restore(tmp_path, 3) == {"again": True}

    resumed = mtf.Trainer(build_lm(keeps), learning_rate=0.5)
    resumed.restore(tmp_path, 2)
    with pytest.raises(CheckpointError, match="model.ckpt-2 exists and was not written by this"):
        resumed.save(tmp_path)
    resumed.step(batch)
    resumed.save(tmp_path, extra={"abandoned": False})
    assert resumed.restore(tmp_path, 3) == {"abandoned": False}
    assert steps_in(tmp_path) == [2, 3]
    with pytest.raises(CheckpointError, match="was not written by this run"):
        trainer_of_another_run = mtf.Trainer(build_lm(keeps))
        trainer_of_another_run.step_number = 3
        trainer_of_another_run.save(tmp_path)


def test_variables_that_match_are_updated_at_their_own_rate(build_lm, batch):
    """By the rule of Adam without correction from zero: a step of lr x 0.1 g / (0.0316 |g|)."""
    bound = [
        "run.optimizer = @AdamWithMultiLRSchedule",
        "AdamWithMultiLRSchedule.variable_search = ['_norm', 'wi']",
        "AdamWithMultiLRSchedule.alt_lr_schedules = [@linear_warmup, [0.5, 0.02]]",
        "linear_warmup.steps_or_fraction = 100",
        "AdamWeightDecayOptimizer.epsilon = 1e-30",
        "run.learning_rate_schedule = 0.001",
    ]
    model = build_lm(*bound)
    trainer = mtf.Trainer(model)
    before = {name: variable.numpy() for name, variable in model.variables.items()}
    gradients = {name: g.numpy() for name, g in model.gradients(batch).items()}
    assert trainer.step(batch)["learning_rate"] == pytest.approx(0.001)
    seen = set()
    for name, variable in model.variables.items():
        rate = 0.01 if "wi" in name else 0.0 if "_norm" in name else 0.001
        seen.add(rate)
        g = gradients[name].astype(np.float64)
        moved = np.where(g == 0, 0, rate * 0.1 * g / (np.sqrt(0.001) * np.abs(g) + 1e-300))
        np.testing.assert_allclose(before[name] - variable.numpy(), moved, rtol=1e-3, atol=1e-6)
    assert seen == {0.01, 0.0, 0.001}


def test_rates_that_no_variable_has_are_refused(model):
    optimizer = AdamWithMultiLRSchedule(variable_search=["no_such"], alt_lr_schedules=[0.1])
    with pytest.raises(ConfigError, match="'no_such' is found in no name"):
        mtf.Trainer(model, optimizer)
