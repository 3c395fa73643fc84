"""A mixture of tasks with metrics and of an objective: trained, evaluated, killed, resumed."""

import json
import random
import signal

import pytest
import watched
from commands import HERE, finish, mtf, parameters, rows, same_bits, start, training_rows

from mtf_models.runtime.training.trainer import Trainer

MIXED = (f"--gin_file={HERE / 'mixed.gin'}", "--module_import=mixed_task")
TINY = (
    "--gin_file=examples/mixture_tiny.gin",
    "--gin_param=d_model = 16",
    "--gin_param=d_ff = 32",
    "--gin_param=num_layers = 1",
    "--gin_param=mesh_eval_dataset_fn.num_eval_examples = 4",
    "--batch_size=4",
    "--steps=20",
    "--save_every=5",
)
METRICS = {
    "mixed_numbers": {"exactly", "likelihood", "loss", "perplexity"},
    "mixed_backwards": {"letters_right", "likeliest_is_right", "loss", "perplexity"},
    "mixed_text": {"loss", "perplexity"},
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A run of 20 steps that was not interrupted, what it printed, and what each step read."""
    folder = tmp_path_factory.mktemp("mixed")
    return _whole(folder, *MIXED, "--eval_every=10")


def _whole(folder, *words):
    notes = folder / "notes"
    outcome = _noted(notes, *words, f"--model_dir={folder / 'run'}")
    assert outcome.status == 0, outcome.err
    return folder / "run", outcome, watched.read(notes)


def _noted(notes, *words):
    """Trains in this process, and notes what each step reads."""
    made = Trainer.step
    Trainer.step = watched.noting(notes)
    try:
        return mtf("train", *words)
    finally:
        Trainer.step = made


def test_each_task_is_evaluated_by_its_metrics(mixed):
    folder, outcome, _ = mixed
    found = [row for row in rows(folder) if "loss" not in row]
    assert [row["step"] for row in found] == [10] * 3 + [20] * 3
    for step in (10, 20):
        names = {n for row in found if row["step"] == step for n in row if n != "step"}
        assert names == {f"{task}/{metric}" for task, own in METRICS.items() for metric in own}
    assert "mixed_numbers, 5 examples: exactly " in outcome.out
    assert "mixed_text, 5 examples: loss " not in outcome.out  # They are joined and split again.


def test_what_was_read_is_said(mixed):
    folder, outcome, _ = mixed
    lines = outcome.out.splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith("data  "))
    assert " in 80 rows, filled to " in lines[first]
    shares = {task: size / 107 for task, size in (("mixed_numbers", 37), ("mixed_text", 20))}
    for task, share in shares.items():
        (line,) = (line for line in lines[first:] if f" of {task}, " in line)
        assert line.endswith(f"its rate is {share:.1%}")
    for row in training_rows(folder):
        assert 0.3 < row["fill/inputs"] <= 1.0 and 0 < row["fill/targets"] <= 1.0


def test_every_prediction_is_written(mixed):
    folder, _, _ = mixed
    assert mtf("eval", f"--model_dir={folder}", "--module_import=mixed_task").status == 0
    text = (folder / "validation_eval" / "mixed_backwards_20.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert [row["input"] for row in found] == [f"b{i}" for i in range(100, 105)]
    assert [row["references"] for row in found] == [[f"{i}"[::-1]] for i in range(100, 105)]
    assert all(len(row["prediction"]) <= 3 and row["log_probability"] < 0 for row in found)
    assert all(row["right"] == (row["prediction"] in row["references"]) for row in found)


def _killed_and_resumed(folder, expected, kills, words):
    run, notes = folder / "parts", folder / "parts_notes"
    for step in kills:
        command = (notes, f"step:{step}", "train", *words, f"--model_dir={run}")
        outcome = finish(start(*command, program=(HERE / "watched.py",)))
        assert outcome.status == -signal.SIGKILL, outcome.err
    outcome = _noted(notes, *words, f"--model_dir={run}")
    assert outcome.status == 0, outcome.err
    made = watched.read(notes)
    assert len(made) >= len(expected)
    assert set(made) == set(expected)
    return run


@pytest.mark.slow
def test_killed_and_resumed(mixed, tmp_path):
    whole, _, read = mixed
    words = (*MIXED, "--eval_every=10")
    run = _killed_and_resumed(tmp_path, read, [random.Random(0).randint(6, 9)], words)
    assert training_rows(run) == training_rows(whole)
    assert same_bits(parameters(run), parameters(whole))


@pytest.mark.nightly
def test_words_and_verses_killed_three_times(tmp_path):
    whole, _, read = _whole(tmp_path, *TINY)
    kills = sorted(random.Random(1).sample(range(2, 20), 3))
    run = _killed_and_resumed(tmp_path, read, kills, TINY)
    assert training_rows(run) == training_rows(whole)
    assert same_bits(parameters(run), parameters(whole))
    for metric in (
        "cmudict_g2p_text/phoneme_error_rate",
        "kjv_web/bleu",
        "kjv_web_unsupervised/perplexity",
    ):
        assert any(metric in row for row in rows(run))
