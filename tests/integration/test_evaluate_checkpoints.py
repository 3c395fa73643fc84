"""`mtf eval` of several checkpoints, of a run in training, and the best checkpoint kept."""

import json
import shutil

import pytest
from commands import finish, hashes, mtf, parameters, rows, same_bits, start, train

from mtf_models.runtime.training.best import Best


def evaluated(folder):
    return [(row["step"], row["numbered/exactly"]) for row in rows(folder) if "loss" not in row]


@pytest.mark.parametrize(
    ("asked", "steps"), [("all", [5, 10, 15, 20]), ("20,5", [20, 5]), ("10", [10])]
)
def test_several_checkpoints(folder, asked, steps):
    before = len(evaluated(folder))
    outcome = mtf("eval", f"--model_dir={folder}", f"--steps={asked}")
    assert outcome.status == 0, outcome.err
    found = evaluated(folder)[before:]
    assert [step for step, _ in found] == steps
    lines = outcome.out.splitlines()
    if len(steps) > 1:
        header = lines.index("step  numbered/exactly  numbered/loss  numbered/perplexity")
        table = [line.split() for line in lines[header + 1 : header + 1 + len(steps)]]
        assert [(int(step), float(value)) for step, value, *_ in table] == [
            (step, float(f"{value:.4g}")) for step, value in sorted(found)
        ]
    assert len(list((folder / "validation_eval").iterdir())) == len(steps)
    # A checkpoint that is restored into a model is the one that is loaded on its own.
    assert mtf("eval", f"--model_dir={folder}", f"--step={steps[0]}").status == 0
    first, again = rows(folder)[-1 - len(steps)], rows(folder)[-1]
    assert first == pytest.approx(again, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps=7,20,9"], "no checkpoint of step 7, 9; there are steps 5, 10, 15, 20"),
        (["--steps=some"], "'some' is not a whole number from 0"),
        (["--steps=all", "--step=5"], "not allowed with argument"),
        (["--follow", "--steps=all"], "not allowed with argument"),
    ],
)
def test_checkpoints_that_are_not_there(folder, words, message):
    outcome = mtf("eval", f"--model_dir={folder}", *words)
    assert outcome.status == 2
    assert message in outcome.err


@pytest.mark.parametrize("task", ["numbered_empty", "numbered_uncounted"])
def test_an_empty_split(folder, task):
    before = hashes(folder)
    outcome = mtf("eval", f"--model_dir={folder}", f"--task={task}", "--split=empty")
    assert outcome.status == 2
    assert f"The split 'empty' of {task} has no example: take another" in outcome.err
    assert hashes(folder) == before


@pytest.mark.parametrize("command", ["infer", "score"])
def test_an_empty_split_to_read(trained, tmp_path, command):
    output = tmp_path / "out.jsonl"
    words = ("--task=numbered_empty", "--split=empty", f"--output={output}")
    outcome = mtf(command, f"--model_dir={trained[0]}", *words)
    assert outcome.status == 2
    assert "The split 'empty' of numbered_empty has no example" in outcome.err
    assert not output.exists()


def test_an_empty_split_of_a_run_that_would_evaluate_it(tmp_path):
    task = "--gin_param=MIXTURE_NAME = 'numbered_hollow'"
    outcome = train(tmp_path / "run", task, "--eval_every=5")
    assert outcome.status == 2
    assert "The split 'validation' of numbered_hollow has no example" in outcome.err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_is_followed_until_its_end(trained, tmp_path):
    """Two checkpoints are there when it begins, the others come while it evaluates."""
    folder = tmp_path / "run"
    later = ("model.ckpt-15*", "model.ckpt-20*", "checkpoint")
    shutil.copytree(trained[0], folder, ignore=shutil.ignore_patterns(*later))
    before = len(evaluated(folder))
    process = start("eval", f"--model_dir={folder}", "--follow", "--module_import=numbered_task")
    assert process.stdout.readline().startswith(f"Waiting for checkpoints in {folder}")
    assert process.stdout.readline().startswith("step 5  numbered, 7 examples")
    for step in (15, 20):
        for end in ("data-00000-of-00001", "extra.json", "index"):
            name = f"model.ckpt-{step}.{end}"
            shutil.copy(trained[0] / name, folder / f".{name}")
            (folder / f".{name}").replace(folder / name)
    outcome = finish(process)
    assert outcome.status == 0, outcome.err
    assert [step for step, _ in evaluated(folder)[before:]] == [5, 10, 15, 20]


@pytest.mark.slow
def test_the_best_checkpoint_is_kept(tmp_path):
    folder = tmp_path / "run"
    words = ("--eval_every=2", "--keep=1", "--keep_best=numbered/loss")
    outcome = train(folder, "--steps=10", *words)
    assert outcome.status == 0, outcome.err
    losses = {row["step"]: row["numbered/loss"] for row in rows(folder) if "loss" not in row}
    best = min(losses, key=losses.get)
    (kept,) = (folder / "best").glob("model.ckpt-*.index")
    assert kept.name == f"model.ckpt-{best}.index"
    assert f"kept step {best} in {folder / 'best'}: the lowest numbered/loss so far" in outcome.out
    evaluation = mtf("eval", f"--model_dir={folder / 'best'}")
    assert evaluation.status == 0, evaluation.err
    assert rows(folder / "best")[-1]["numbered/loss"] == pytest.approx(losses[best], rel=1e-6)

    # A run that goes on, without an evaluation that is better, keeps what it has.
    held = parameters(folder / "best", best)
    worse = ("--gin_param=run.train_steps = 12", "--keep_best=max:numbered/loss")
    file = folder / "metrics.jsonl"
    file.write_text(file.read_text() + json.dumps({"step": 10, "numbered/loss": 1e9}) + "\n")
    outcome = train(folder, *worse, "--eval_every=2")
    assert outcome.status == 0, outcome.err
    assert "so far" not in outcome.out
    assert same_bits(parameters(folder / "best", best), held)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("bleu", "is no task and metric: write TASK/METRIC"),
        ("least:numbered/loss", "is no task and metric"),
        ("numberd/loss", "names the task 'numberd', which is not evaluated"),
    ],
)
def test_what_is_best_of_nothing(tmp_path, asked, message):
    outcome = train(tmp_path / "run", f"--keep_best={asked}", "--steps=1")
    assert outcome.status == 2
    assert message in outcome.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("asked", "sign"),
    [
        ("a/bleu", 1),
        ("a/loss", -1),
        ("a/phoneme_error_rate", -1),
        ("loss/accuracy", 1),
        ("max:a/loss", 1),
        ("min:a/bleu", -1),
    ],
)
def test_more_is_better_but_of_losses_and_errors(tmp_path, asked, sign):
    assert Best(tmp_path, asked, 0).sign == sign
