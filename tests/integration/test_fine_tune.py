"""Runs that begin with the checkpoint of another run."""

import shutil

import pytest
from commands import GIVEN, hashes, mtf, parameters, same_bits, train, training_rows

from mtf_models.config import parse
from mtf_models.runtime.training.fine_tune import carried_over

WORDS = ("--module_import=numbered_task",)


def begin(source, folder, *words):
    """Three more steps, unless `words` say otherwise."""
    return mtf(
        "train", *WORDS, f"--init_from={source}", f"--model_dir={folder}", "--steps=3", *words
    )


@pytest.fixture(scope="module")
def begun(trained, tmp_path_factory):
    """A folder of a run that began with the trained one, and what it printed."""
    folder = tmp_path_factory.mktemp("begun") / "run"
    before = hashes(trained[0])
    outcome = begin(trained[0], folder, "--task=numbered", "--gin_param=dropout_rate = 0.0")
    assert hashes(trained[0]) == before
    return folder, outcome


def test_more_steps_are_counted_from_the_checkpoint(trained, begun):
    folder, outcome = begun
    assert outcome.status == 0, outcome.err
    for line in (
        "steps      20 to 23:",
        f"begun from {trained[0] / 'model.ckpt-20'}",
        "steps      counted on from the checkpoint, the learning-rate schedule too",
        "optimizer  kept, the slots of 29 of 29 variables",
    ):
        assert line in outcome.out
    assert [row["step"] for row in training_rows(folder)] == [21, 22, 23]
    assert parameters(folder, 23)["global_step"] == 23
    # The loss goes on where it was, far below ln 384, that of random values.
    assert training_rows(folder)[0]["loss"] < 1.5 * training_rows(trained[0])[-1]["loss"]


def test_the_folder_records_it_all(trained, begun):
    recorded = parse([str(begun[0] / "operative_config.gin")])
    assert recorded.query("run.init_checkpoint") == str(trained[0] / "model.ckpt-20")
    assert recorded.query("run.train_steps") == 23
    assert recorded.query("get_vocabulary.mixture_or_task_name") == "numbered"
    assert recorded.query("%d_model") == 32


@pytest.mark.slow
def test_the_same_command_goes_on_with_its_own_run(trained, begun, tmp_path):
    folder, source = tmp_path / "run", tmp_path / "source"
    shutil.copytree(trained[0], source)
    words = ("--gin_param=dropout_rate = 0.0", "--init_step=15", "--init_optimizer=fresh")
    first = begin(source, folder, *words)
    assert first.status == 0, first.err
    # By the decay of step 15 slots that begin at zero would stay too small for long.
    assert "optimizer  fresh, its decay counted from step 15" in first.out
    recorded = parse([str(folder / "operative_config.gin")])
    assert recorded.query("adafactor_decay_rate_pow.offset") == 15
    assert begin(source, folder, *words).out.startswith(f"{folder} is finished: it is at step 18")
    # The source is at step 20; the run goes on with what it was begun from.
    words = (words[0], words[2])
    longer = begin(source, folder, *words, "--steps=4", "--save_every=1")
    assert longer.status == 0, longer.err
    assert "steps      18 to 19:" in longer.out
    assert "begun from" not in longer.out
    shutil.rmtree(source)
    resumed = mtf("train", *WORDS, f"--model_dir={folder}", "--resume", "--steps=20")
    assert resumed.status == 0, resumed.err
    assert "steps      19 to 20:" in resumed.out


@pytest.mark.nightly
def test_from_zero_with_a_schedule_from_zero(trained, tmp_path):
    outcome = begin(
        trained[0],
        tmp_path / "run",
        "--init_steps=zero",
        "--init_optimizer=fresh",
        "--gin_param=run.learning_rate_schedule = @linear_warmup",
        "--gin_param=linear_warmup.steps_or_fraction = 10",
        "--gin_param=dropout_rate = 0.0",
        "--steps=2",
    )
    assert outcome.status == 0, outcome.err
    assert "steps      0 to 2:" in outcome.out
    assert "steps      counted from 0, the learning-rate schedule too" in outcome.out
    assert "optimizer  fresh\n" in outcome.out
    assert [row["learning_rate"] for row in training_rows(tmp_path / "run")] == [0, 0.1]


def test_adapters_leave_the_rest_as_it_was(trained, tmp_path):
    outcome = begin(
        trained[0],
        tmp_path / "run",
        f"--gin_file={trained[0] / 'operative_config.gin'}",
        "--gin_file=task_adapter.gin",
        "--gin_param=task_adapter/DenseReluDense.hidden_size = 4",
    )
    assert outcome.status == 0, outcome.err
    # One layer in each tower: a norm [32], wi_0 and wi_1 [32, 4] and wo [4, 32].
    trains = 2 * (32 + 3 * 32 * 4)
    assert f"trains     8 of 37 variables, {trains:,} of" in outcome.out
    assert "by 'task_adapter':" in outcome.out
    # The checkpoint has slots, but none of what is trained.
    assert "optimizer  fresh, its decay counted from step 20" in outcome.out
    assert "task_adapter/DenseReluDense/wi_0/kernel [d_model=32, d_ff=4]" in outcome.out
    found, before = parameters(tmp_path / "run", 23), parameters(trained[0])
    weights = {name for name in before if "_slot_" not in name and name != "global_step"}
    assert same_bits({n: found[n] for n in weights}, {n: before[n] for n in weights})
    others = found.keys() - weights - {"global_step"}
    assert all("/task_adapter/" in name for name in others)


def test_what_is_carried_over_is_mentioned():
    config = ["models/t5.1.1.small.gin"]
    none, some = (parse(config, [f"dropout_rate = {rate}"]) for rate in ("0.0", "0.1"))
    assert "dropout    0, as before; fine-tuning mostly wants some" in "".join(
        carried_over(none, none)
    )
    assert list(carried_over(some, none)) == ["dropout    0.1; it was 0 before"]
    assert list(carried_over(none, some)) == list(carried_over(none, None)) == []
    old = parse(config, ["Unitransformer.loss_denominator = 233472"])
    assert list(carried_over(old, None)) == [
        "loss       the sum over 233472: Unitransformer.loss_denominator"
    ]


REFUSED = {
    "no number of steps": (["--steps"], "--init_from needs --steps"),
    "a step that is not there": (["--init_step=7"], "no checkpoint of step 7; there are steps 5,"),
    "to resume as well": (["--resume"], "give one of them"),
    "a filter that fits nothing": (
        ["--gin_param=run.variable_filter = 'adapterz'"],
        "chooses none of the 29 variables",
    ),
    "another size": (["--gin_param=d_model = 64"], "does not fit the model"),
    "slots of another optimizer": (
        ["--gin_param=run.optimizer = @AdamWeightDecayOptimizer", "--init_optimizer=keep"],
        "has no slots of AdamWeightDecayOptimizer for what is trained",
    ),
    "another beginning": (
        ["--gin_param=run.init_checkpoint = 'runs/other'"],
        "run.init_checkpoint = 'runs/other' are two beginnings",
    ),
    "an unknown task": (["--task=numberd"], "no task or mixture 'numberd'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(trained, tmp_path, name):
    words, message = REFUSED[name]
    given = [f"--init_from={trained[0]}", f"--model_dir={tmp_path / 'new'}", "--steps=3"]
    if words == ["--steps"]:
        given, words = given[:2], []
    outcome = mtf("train", *WORDS, *given, *words)
    assert outcome.status == 2
    assert outcome.out == ""
    assert message in outcome.err
    assert not (tmp_path / "new").exists()


def test_runs_are_not_confused(trained, begun, tmp_path):
    before = hashes(begun[0])
    itself = begin(trained[0], trained[0])
    assert "take a new --model_dir" in itself.err
    not_begun = train(begun[0], "--gin_param=dropout_rate = 0.0", "--steps=23")
    assert "run.init_checkpoint" in not_begun.err
    elsewhere = begin(tmp_path / "nowhere", begun[0])
    assert "There is no checkpoint" in elsewhere.err
    another = begin(begun[0], shutil.copytree(trained[0], tmp_path / "other"))
    assert "run.init_checkpoint: None there" in another.err
    nothing = mtf("train", *GIVEN, f"--model_dir={tmp_path / 'new'}", "--init_steps=zero")
    assert "--init_steps say how a run begins with --init_from" in nothing.err
    outcomes = (itself, not_begun, elsewhere, another, nothing)
    assert [outcome.status for outcome in outcomes] == [2] * 5
    assert hashes(begun[0]) == before


def test_a_run_outlives_the_checkpoint_that_it_began_with(trained, begun, tmp_path):
    source = shutil.copytree(trained[0], tmp_path / "source")
    folder = tmp_path / "run"
    words = ("--task=numbered", "--gin_param=dropout_rate = 0.0")
    shutil.copytree(begun[0], folder)
    config = folder / "operative_config.gin"
    config.write_text(config.read_text().replace(str(trained[0]), str(source)))
    for file in source.glob("model.ckpt-20.*"):
        file.unlink()
    asked = (source, source / "model.ckpt-20")
    for path in asked:
        outcome = begin(path, folder, *words)
        assert outcome.status == 2
        assert f"The run in {folder} began with {source / 'model.ckpt-20'}" in outcome.err
        assert "give --resume in place of --init_from" in outcome.err
    other = begin(source / "model.ckpt-10", folder, *words)
    assert other.status == 2
    assert "holds a run of another config" in other.err
    assert "is asked for" not in other.err
    resumed = mtf("train", *WORDS, f"--model_dir={folder}", "--resume")
    assert resumed.status == 0, resumed.err
