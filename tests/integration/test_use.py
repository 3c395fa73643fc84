"""`mtf eval`, `mtf infer` and `mtf.load_model` need the run folder alone."""

import json

import numpy as np
import pytest
import seqio
from commands import finish, mtf, rows, start

from mtf_models.runtime.folder.load import load_model

WORDS = ["n1", "n22", "n3", "", "n35", "n4 and much more than fits", "n7"]
STEP = 5  # Its predictions differ from word to word.


def infer(folder, given, made, *words):
    files = (f"--input={given}", f"--output={made}")
    return mtf("infer", f"--model_dir={folder}", f"--step={STEP}", *files, *words)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A working directory that has nothing to do with the run."""
    there = tmp_path / "elsewhere"
    there.mkdir()
    monkeypatch.chdir(there)
    return there


def test_evaluation_adds_its_row(folder, elsewhere):
    (trained,) = [row for row in rows(folder) if "numbered/loss" in row]
    outcome = mtf("eval", f"--model_dir={folder}")
    assert outcome.status == 0
    assert outcome.out.startswith("step 20  numbered, 7 examples: exactly ")
    assert outcome.out.endswith(f"Added to {folder / 'metrics.jsonl'}.\n")
    assert rows(folder)[-1] == pytest.approx(trained, rel=1e-6)
    assert list(elsewhere.iterdir()) == []


def test_evaluation_does_not_depend_on_the_batch(folder):
    losses = {}
    for size in (1, 3, 7):
        assert mtf("eval", f"--model_dir={folder}", f"--batch_size={size}").status == 0
        losses[size] = rows(folder)[-1]["numbered/loss"]
    assert losses[3] == pytest.approx(losses[1], rel=1e-5)
    assert losses[7] == pytest.approx(losses[1], rel=1e-5)


def test_evaluation_of_part_of_a_split_at_a_step(folder):
    outcome = mtf("eval", f"--model_dir={folder}", "--step=10", "--split=train", "--num_examples=5")
    assert outcome.status == 0
    assert outcome.out.startswith("step 10  numbered, 5 examples: ")
    assert [line.split()[0] for line in outcome.out.splitlines()[1:6]] == [
        f"n{i}" for i in range(5)
    ]
    assert rows(folder)[-1]["step"] == 10


def test_evaluation_of_another_task(folder):
    seqio.MixtureRegistry.add("numbered_once_more", ["numbered"], default_rate=1)
    gin = "--gin_param=mesh_eval_dataset_fn.mixture_or_task_name = 'none_such'"
    words = (f"--model_dir={folder}", "--num_examples=1")
    outcome = mtf("eval", *words, gin, "--task=numbered_once_more")
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("step 20  numbered, 1 examples: exactly ")
    outcome = mtf("eval", *words, "--task=numbere")
    assert outcome.status == 2
    assert "no task or mixture 'numbere'" in outcome.err


def test_evaluation_ends_a_line_that_was_left_torn(folder):
    file = folder / "metrics.jsonl"
    file.write_text(file.read_text() + '{"step": 21')
    assert mtf("eval", f"--model_dir={folder}", "--num_examples=1").status == 0
    assert json.loads(file.read_text().splitlines()[-1])["step"] == 20


def row_of(text):
    """Bytes above three special ids, the end of sequence, padding to 8."""
    ids = [*(byte + 3 for byte in text.encode()), 1]
    return [*ids, *[0] * (8 - len(ids))]


def test_the_loss_is_that_of_the_logits(folder):
    """The mean negative log-likelihood of a target token, computed by NumPy."""
    mtf("eval", f"--model_dir={folder}")
    targets = np.array([row_of(f"{i}") for i in range(7)])
    features = {"inputs": np.array([row_of(f"n{i}") for i in range(7)]), "targets": targets}
    logits = load_model(folder)(features).logits.numpy().astype(np.float64)
    likelihood = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(likelihood, np.expand_dims(targets, -1), -1).squeeze(-1)
    expected = -chosen[targets > 0].mean()
    assert rows(folder)[-1]["numbered/loss"] == pytest.approx(expected, rel=1e-5)


def test_inference_keeps_order_and_count(trained, tmp_path, elsewhere):
    given = tmp_path / "in.txt"
    given.write_text("\n".join(WORDS))  # the last line is not ended
    made = {}
    for size in (4, 1):
        outcome = infer(trained[0], given, f"out{size}.jsonl", f"--batch_size={size}")
        assert outcome.status == 0
        assert outcome.out == (
            f"Wrote 7 predictions of step {STEP} to out{size}.jsonl.\nCompiled 1 graphs.\n"
        )
        assert "mtf: warning: 1 of 7 inputs were cut to 8 tokens." in outcome.err
        lines = (elsewhere / f"out{size}.jsonl").read_text("utf-8").splitlines()
        made[size] = [json.loads(line) for line in lines]
    assert [row["input"] for row in made[4]] == WORDS
    for row in (*made[4], *made[1]):
        row["score"] = pytest.approx(row["score"], rel=1e-5)
    assert made[4] == made[1]
    assert len({row["prediction"] for row in made[4]}) > 2
    assert len(list(elsewhere.iterdir())) == 2


def test_predictions_are_as_long_as_they_may_be(trained, tmp_path):
    given, made = tmp_path / "in.txt", tmp_path / "out.jsonl"
    given.write_text("\n".join(WORDS))
    infer(trained[0], given, made)
    whole = [json.loads(line)["prediction"] for line in made.read_text("utf-8").splitlines()]
    made.unlink()
    infer(trained[0], given, made, "--max_decode_length=1")
    cut = [json.loads(line)["prediction"] for line in made.read_text("utf-8").splitlines()]
    assert cut == [text[:1] for text in whole]
    assert cut != whole


def test_an_output_that_cannot_be_finished_can_be_finished_later(trained, tmp_path, monkeypatch):
    given, made = tmp_path / "in.txt", tmp_path / "out.jsonl"
    given.write_text("n1\n")

    def refuse(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(made), "replace", refuse)
    outcome = infer(trained[0], given, made)
    assert outcome.status == 1
    assert f"{made} cannot be written: No space left on device" in outcome.err
    assert not made.exists()
    monkeypatch.undo()
    outcome = infer(trained[0], given, made)
    assert outcome.out.startswith(f"Going on after 1 of 1, from {made}.partial.\n")
    assert json.loads(made.read_text())["input"] == "n1"
    assert len(list(tmp_path.iterdir())) == 2


def test_in_a_process_that_knows_the_folder_alone(trained, tmp_path):
    """The module that registers the task is recorded there too."""
    words = (f"--model_dir={trained[0]}", "--num_examples=2")
    outcome = finish(start("eval", *words, cwd=tmp_path))
    assert outcome.status == 0
    assert outcome.out.startswith("step 20  numbered, 2 examples: ")


def test_a_decoder_alone_continues_prompts(tmp_path):
    folder = tmp_path / "run"
    words = [f"--gin_param={text}" for text in ("d_model = 32", "num_layers = 1", "num_heads = 2")]
    words += [
        "--gin_param=d_kv = 8",
        "--gin_param=d_ff = 32",
        '--gin_param=MIXTURE_NAME = "numbered_lm"',
        '--gin_param=run.sequence_length = {"targets": 8}',
        "--module_import=numbered_task",
        f"--model_dir={folder}",
    ]
    outcome = mtf("train", "--gin_file=examples/lm_tiny.gin", "--batch_size=4", "--steps=3", *words)
    assert outcome.status == 0, outcome.err
    assert "4 rows of 8 targets = 32 tokens" in outcome.out
    assert "numbered_lm/loss" in rows(folder)[-1]

    given, made = tmp_path / "in.txt", tmp_path / "out.jsonl"
    given.write_text("1\n\n12\n")
    outcome = mtf("infer", f"--model_dir={folder}", f"--input={given}", f"--output={made}")
    assert outcome.status == 0, outcome.err
    lines = [json.loads(line) for line in made.read_text("utf-8").splitlines()]
    assert [line["input"] for line in lines] == ["1", "", "12"]
    assert all(line["prediction"].startswith(line["input"]) for line in lines)
