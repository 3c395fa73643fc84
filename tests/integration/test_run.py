"""What `mtf train` prints and leaves, and what its flags do."""

import json
import re
import shlex
import sys

import numpy as np
import pytest
import tensorflow as tf
import watched
from commands import GIVEN, hashes, mtf, rows, train, training_rows
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mtf_models.config import parse
from mtf_models.data import prepared
from mtf_models.runtime.folder.run_folder import RunFolder
from mtf_models.runtime.training.trainer import Trainer

# By hand, of one layer each with d_model 32, d_ff 64, 4 heads of 8, untied, 384 rows for 259 bytes:
# two tables, three attentions of four matrices, two feed-forwards of three, two relative biases of
# 4 heads and 32 buckets, seven norms.
PARAMETERS = 2 * 384 * 32 + 3 * 4 * 32 * 32 + 2 * 3 * 32 * 64 + 2 * 4 * 32 + 7 * 32


@pytest.fixture
def no_trainer(monkeypatch):
    """Fails a test that comes to building a trainer."""

    def refuse(*_):
        raise AssertionError("a trainer was built")

    monkeypatch.setattr(Trainer, "__init__", refuse)


def checkpoints(folder):
    return sorted(int(file.name[11:-6]) for file in folder.glob("model.ckpt-*.index"))


def test_the_first_lines(trained):
    _, outcome = trained
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "devices    CPU:0"
    assert lines[1].startswith("mesh       one device   layout ensemble:ensemble,batch:batch,")
    assert lines[2] == f"parameters {PARAMETERS:,}, float32; computes in float32"
    # Numbers of two digits: n, the digits and the end of 8 inputs; three of 8 targets.
    assert lines[3] == (
        "batch      4 rows of 8 inputs + 8 targets = 64 tokens; the first holds 4 examples and is "
        "filled to 50% of inputs, 38% of targets"
    )
    assert lines[4] == ("steps      0 to 20: 1,280 tokens, about 80 examples, 2.2 epochs of 37")
    assert lines[5] == f"folder     {trained[0]}"
    assert re.fullmatch(r"step 1/20  loss \d.*  lr 1.00e-02  \d.* s for the first step", lines[6])
    assert re.fullmatch(r"step 20/20  loss \d.*  lr 1.00e-02  .* tokens/s  0:00 left", lines[7])


def test_the_last_lines(trained):
    folder, outcome = trained
    assert "numbered, 7 examples: exactly" in outcome.out
    assert f"Trained to step 20. Next:\n  mtf eval --model_dir={folder}\n" in outcome.out


def test_the_folder(trained):
    folder, _ = trained
    names = {re.sub(r"(tfevents)\..*", r"\1", file.name) for file in folder.iterdir()}
    steps = (5, 10, 15, 20)
    endings = ("index", "data-00000-of-00001", "extra.json")
    assert names == {
        ".lock",
        "checkpoint",
        "events.out.tfevents",
        "metrics.jsonl",
        "model-info.txt",
        "operative_config.gin",
        "vocabulary.json",
        *(f"model.ckpt-{step}.{ending}" for step in steps for ending in endings),
    }


def test_metrics(trained):
    *steps, evaluation = rows(trained[0])
    assert [row["step"] for row in steps] == list(range(1, 21))
    assert all(set(row) >= {"loss", "learning_rate"} for row in steps)
    assert ["tokens_per_second" in row for row in steps] == [False, *[True] * 19]
    values = {f"numbered/{name}" for name in ("exactly", "loss", "perplexity")}
    assert set(evaluation) == {"step", *values}
    assert evaluation["numbered/perplexity"] == pytest.approx(np.exp(evaluation["numbered/loss"]))
    assert evaluation["step"] == 20


def test_tensorboard(trained):
    events = EventAccumulator(str(trained[0]), size_guidance={"tensors": 0})
    events.Reload()
    shown = {
        (event.step, tag): float(tf.make_ndarray(event.tensor_proto))
        for tag in events.Tags()["tensors"]
        for event in events.Tensors(tag)
    }
    for row in rows(trained[0]):
        kind = "train" if "loss" in row else "eval"
        for name, value in row.items():
            if name != "step":
                assert shown[row["step"], f"{kind}/{name}"] == pytest.approx(value)


def test_model_info(trained):
    text = (trained[0] / "model-info.txt").read_text()
    for line in ("seed       0", "devices    CPU:0", f"parameters {PARAMETERS:,}"):
        assert line in text
    assert re.search(r"tensorflow \d", text)
    assert f"command    {shlex.join(sys.argv)}\n" in text
    assert f"{384 * 32 * 4:,}  shared/embedding [vocab=384, d_model=32]" in text
    assert f"{PARAMETERS * 4:,}  all" in text


def test_the_config_is_complete(trained):
    recorded = parse([str(trained[0] / "operative_config.gin")])
    given = parse([GIVEN[0].partition("=")[2]])
    assert recorded.differences(given) == []
    assert recorded.query("utils.run.train_steps") == 20


def test_a_second_run_says_that_it_is_finished(folder):
    before = hashes(folder)
    outcome = train(folder)
    assert outcome.status == 0
    assert outcome.out == (
        f"{folder} is finished: it is at step 20 of 20. Give a larger --steps to train on.\n"
    )
    assert hashes(folder) == before


def test_a_longer_run_goes_on(folder):
    before = training_rows(folder)
    outcome = train(folder, "--steps=22", "--save_every=1", "--keep=2", "--eval_every=1")
    assert outcome.status == 0
    assert "steps      20 to 22: 128 tokens" in outcome.out
    assert training_rows(folder)[:20] == before
    assert [row["step"] for row in rows(folder)[20:]] == [20, 21, 21, 22, 22]
    assert checkpoints(folder) == [21, 22]
    assert parse([str(folder / "operative_config.gin")]).query("utils.run.train_steps") == 22


def test_flags_are_heeded_and_recorded(tmp_path, monkeypatch):
    notes, run = tmp_path / "notes", tmp_path / "run"
    monkeypatch.setattr(Trainer, "step", watched.noting(notes))
    outcome = train(run, "--gin_param=run.seed = 1", "--seed=5", "--batch_size=8", "--steps=1")
    assert outcome.status == 0
    assert "batch      8 rows" in outcome.out
    assert "seed       5" in (run / "model-info.txt").read_text()
    assert checkpoints(run) == [1]
    recorded = parse([str(run / "operative_config.gin")])
    assert recorded.query("utils.run.seed") == 5
    assert recorded.query("utils.run.batch_size") == ("sequences_per_batch", 8)
    ((_, examples),) = watched.read(notes)
    assert len(set(examples)) == 8


def test_another_seed_is_another_run(tmp_path, trained):
    train(tmp_path / "run", "--seed=5", "--steps=1")
    assert training_rows(tmp_path / "run")[0]["loss"] != training_rows(trained[0])[0]["loss"]


def test_data_dir(folder, tmp_path):
    try:
        assert train(folder, f"--data_dir={tmp_path / 'data'}").status == 0
        assert prepared.data_dir() == tmp_path / "data"
    finally:
        prepared.use_data_dir(None)


@pytest.mark.slow
def test_a_mesh(tmp_path):
    """With a vocabulary of 259 that is padded to 260, which the folder remembers."""
    folder, layout = tmp_path / "run", "batch:data,heads:model,d_ff:model,vocab:model"
    words = ["--mesh=data:2;model:2", f"--layout={layout}", "--steps=2"]
    words += ["--gin_param=Unitransformer.vocab_divisor = 1", "--pad_vocab"]
    outcome = train(folder, *words)
    assert outcome.status == 0, outcome.err
    assert f"mesh       data:2,model:2   layout {layout}" in outcome.out
    assert "devices    CPU:0, CPU:1, CPU:2, CPU:3" in outcome.out
    info = (folder / "model-info.txt").read_text()
    table = 260 * 32 * 4 // 2
    assert f"{table:,}  shared/embedding [vocab=260, d_model=32]  split over model" in info
    assert re.search(rf"{32 * 4}  .*rms_norm/scale \[d_model=32\]\n", info)

    outcome = mtf("eval", f"--model_dir={folder}", "--mesh=data:1;model:1")
    assert outcome.status == 0, outcome.err
    assert "recorded mesh 2×2 → using 1\n" in outcome.err
    trained, evaluated = [row["numbered/loss"] for row in rows(folder)[-2:]]
    assert evaluated == pytest.approx(trained, rel=1e-5)


def test_another_config_is_refused(folder, no_trainer):
    before = hashes(folder)
    outcome = train(folder, "--gin_param=d_model = 64")
    assert outcome.status == 2
    assert outcome.err == (
        f"mtf: error: {folder} holds a run of another config:\n"
        "  Unitransformer.d_model: 32 there, 64 here\n"
        "Take a new --model_dir, go on with the run that is there by --resume, or delete it by "
        "--overwrite.\n"
    )
    assert hashes(folder) == before


def test_resume_goes_on_under_the_recorded_config(folder):
    asked = ("--gin_param=d_model = 64", "--seed=3", "--gin_param=run.save_checkpoints_steps = 2")
    outcome = train(folder, *asked, "--steps=21", "--resume")
    assert outcome.status == 0
    assert "--resume goes on under the recorded config, and does not take:" in outcome.err
    for line in (
        "Unitransformer.d_model: 32 there, 64 here",
        "run.save_checkpoints_steps: 5 there, 2 here",
        "run.seed: 0 there, 3 here",
    ):
        assert f"\n  {line}\n" in outcome.err
    assert "run.train_steps" not in outcome.err
    assert f"parameters {PARAMETERS:,}" in outcome.out
    assert "steps      20 to 21" in outcome.out


def test_resume_needs_the_folder_alone(folder):
    outcome = mtf("train", f"--model_dir={folder}", "--resume", "--steps=21")
    assert outcome.status == 0
    assert training_rows(folder)[-1]["step"] == 21


def test_overwrite_deletes_what_runs_write(folder):
    strangers = {"notes.txt": "mine", "model.ckpt-notes.txt": "mine", "my.gin": "d_model = 3"}
    for name, text in strangers.items():
        (folder / name).write_text(text)
    outcome = train(folder, "--gin_param=d_model = 16", "--overwrite", "--steps=2")
    assert outcome.status == 0
    assert [row["step"] for row in training_rows(folder)] == [1, 2]
    assert checkpoints(folder) == [2]
    assert len(list(folder.glob("events*"))) == 1
    assert {name: (folder / name).read_text() for name in strangers} == strangers


def test_overwrite_keeps_the_run_if_the_new_one_cannot_start(folder):
    before = hashes(folder)
    outcome = train(folder, "--gin_param=run.dataset_split = 'x'", "--overwrite")
    assert outcome.status == 2
    assert "There is no split 'x' in numbered" in outcome.err
    assert hashes(folder) == before


def test_one_run_at_a_time(folder):
    before = hashes(folder)
    with RunFolder(folder).locked():
        outcome = train(folder, "--steps=21")
    assert outcome.status == 2
    assert f"Another process trains in {folder}" in outcome.err
    assert hashes(folder) == before


def test_a_task_without_held_out_split_is_trained(tmp_path):
    outcome = train(
        tmp_path / "run", '--gin_param=MIXTURE_NAME = "numbered_train_only"', "--steps=1"
    )
    assert outcome.status == 0
    assert [set(row) & {"loss"} for row in rows(tmp_path / "run")] == [{"loss"}]


def test_damaged_lines_of_metrics_are_dropped_and_told(folder):
    file = folder / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:3], '{"step": 4, "lo\n', *lines[4:], '{"step": 21']))
    outcome = train(folder, "--steps=21")
    assert outcome.status == 0
    assert f"Dropped damaged lines of {file}: 4, 22." in outcome.err
    steps = [json.loads(line)["step"] for line in file.read_text().splitlines()]
    assert steps == [1, 2, 3, *range(5, 21), 20, 21, 21]
