"""What cannot be done is refused in a paragraph that says what to do, and nothing is changed."""

import pytest
from commands import hashes, mtf, rows, train

from mtf_models.runtime.training.trainer import Trainer

REFUSED = {
    "a binding that is misspelt": (
        ["--gin_param=d_modle = 64", "--gin_param=run.batchsize = 3"],
        ["nothing uses the macro d_modle; did you mean d_model?", "did you mean batch_size?"],
    ),
    "a binding that is none": (["--gin_param=d_model"], ["--gin_param 1:1: this is no gin"]),
    "an unknown task": (
        ['--gin_param=MIXTURE_NAME = "numberd"'],
        ["no task or mixture 'numberd'", "numbered", "--module_import"],
    ),
    "a module that is not there": (["--module_import=nope"], ["--module_import=nope", "No module"]),
    "a batch that does not divide": (
        ["--mesh=batch:3"],
        ["batch of size 4 does not divide over the 3 parts", "nearest sizes that fit are 3 or 6"],
    ),
    "a batch in tokens that does not divide": (
        ["--mesh=batch:8", '--gin_param=run.batch_size = ("tokens_per_batch", 32)'],
        ["batch of size 4 does not divide over the 8 parts"],
    ),
    "a batch of half a sequence": (
        ['--gin_param=run.batch_size = ("tokens_per_batch", 63)'],
        ["no whole number of sequences of 8 tokens; the nearest are 56 and 64"],
    ),
    "heads and d_ff that do not divide": (
        ["--mesh=model:3", "--layout=heads:model,d_ff:model"],
        ["heads of size 4 does not", "d_ff of size 64 does not"],
    ),
    "a device that is absent": (
        ["--gin_param=run.mesh_devices = ['GPU:3']"],
        ["No such device: GPU:3. This machine has CPU:0"],
    ),
    "a mesh that is too large": (
        ["--mesh=batch:4;model:4"],
        ["needs 16 devices; this process has 8", "MTF_VIRTUAL_CPUS=16"],
    ),
    "a mesh that cannot be read": (["--mesh=batch=2"], ["Cannot read the mesh", "batch=2"]),
    "a layout rule that is misspelt": (
        ["--mesh=model:2", "--layout=heds:model"],
        ["no dimension is called 'heds'; did you mean heads?"],
    ),
    "weights that nothing splits": (
        ["--mesh=batch:2", "--layout=batch:batch", "--strict"],
        ["weights are whole on every device", "drop --strict"],
    ),
    "a length that is missing": (
        ['--gin_param=run.sequence_length = {"inputs": 8}'],
        ["a bitransformer needs a length for targets too"],
    ),
    "a length for nothing": (
        ['--gin_param=run.sequence_length = {"inputs": 8, "targets": 8, "x": 8}'],
        ["do not fit numbered", "for inputs, targets, and for nothing else"],
    ),
    "a split that is not there": (
        ['--gin_param=run.dataset_split = "dev"'],
        ["no split 'dev' in numbered", "train, validation"],
    ),
    "evaluations without a split": (
        ['--gin_param=MIXTURE_NAME = "numbered_train_only"', "--eval_every=2"],
        ["no split 'validation' in numbered_train_only"],
    ),
    "a run to resume that is not there": (["--resume"], ["There is no run to resume in"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    words, fragments = REFUSED[name]
    outcome = train(tmp_path / "new", *words)
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith("mtf: error: ")
    for fragment in fragments:
        assert fragment in outcome.err
    for unwanted in ("Traceback", "In call to configurable", " at 0x"):
        assert unwanted not in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_refused_with_traceback(tmp_path):
    outcome = train(tmp_path / "new", "--gin_param=d_modle = 64", "--debug")
    assert outcome.status == 2
    assert "Traceback" in outcome.err


def test_gin_files(tmp_path):
    words = ("train", f"--model_dir={tmp_path / 'new'}")
    outcome = mtf(*words, "--gin_file=examples/g2p_tinny.gin")
    assert outcome.status == 2
    assert "There is no gin file 'examples/g2p_tinny.gin'" in outcome.err
    assert "did you mean examples/g2p_tiny.gin" in outcome.err

    (tmp_path / "a.gin").write_bytes(b"\xff\xfe")
    outcome = mtf(*words, f"--gin_file={tmp_path / 'a.gin'}")
    assert outcome.status == 2
    assert "a.gin cannot be read" in outcome.err

    outcome = mtf(*words)
    assert outcome.status == 2
    assert "--gin_file=examples/g2p_tiny.gin" in outcome.err


def test_a_config_without_data(tmp_path):
    outcome = mtf("train", "--gin_file=models/t5.1.1.small.gin", f"--model_dir={tmp_path / 'new'}")
    assert outcome.status == 2
    assert "names no training data" in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "below"])
def test_a_run_folder_that_is_a_file(tmp_path, below):
    (tmp_path / "file").write_text("mine")
    outcome = train(tmp_path / "file" / below)
    assert outcome.status == 2
    assert str(tmp_path / "file") in outcome.err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_loss_that_is_not_finite(tmp_path):
    folder = tmp_path / "run"
    outcome = train(folder, "--gin_param=run.learning_rate_schedule = 1e30", "--save_every=1")
    assert outcome.status == 1
    assert "mtf: error: The loss of step 2 is nan" in outcome.err
    assert "lower learning rate" in outcome.err
    assert [row["step"] for row in rows(folder)] == [1]
    assert sorted(file.name for file in folder.glob("*.index")) == ["model.ckpt-1.index"]


@pytest.mark.slow
def test_a_disk_that_is_full_while_saving(folder, files_of_at_most):
    before = hashes(folder)
    with files_of_at_most(300_000):
        outcome = train(folder, "--steps=21")
    assert outcome.status == 1
    assert f"mtf: error: Cannot write checkpoint {folder / 'model.ckpt-21'}: " in outcome.err
    assert "Make room" in outcome.err
    after = hashes(folder)
    kept = [name for name in before if name.startswith(("model.ckpt", "checkpoint"))]
    assert len(kept) == 13
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert not [file for file in folder.iterdir() if "ckpt-21" in file.name or file.is_dir()]
    assert train(folder, "--steps=21").status == 0


def test_a_failure_that_nobody_foresaw(folder, monkeypatch):
    def step(trainer, features):
        raise ZeroDivisionError("a fault of ours\nwith details")

    monkeypatch.setattr(Trainer, "step", step)
    outcome = train(folder, "--steps=21")
    assert outcome.status == 1
    assert outcome.err == (
        "mtf: error: ZeroDivisionError: a fault of ours (--debug shows the traceback)\n"
    )


USED = {
    "no run folder": ("none", [], "none is not a run folder: it has no operative_config.gin"),
    "an unknown step": ("run", ["--step=3"], "no checkpoint of step 3; there are steps 5, 10"),
    "a vocabulary that does not fit": (
        "run",
        ["--gin_param=get_vocabulary.mixture_or_task_name = 'kjv_web'"],
        "has 384 rows; tokenizer gives 32100",
    ),
    "another width": (
        "run",
        ["--gin_param=d_model = 64"],
        "shared/embedding is [384, 32] in the checkpoint and [384, 64] in the model",
    ),
}


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("command", ["eval", "infer"])
def test_what_cannot_be_used(folder, tmp_path, command, name):
    before = hashes(tmp_path)
    where, words, fragment = USED[name]
    (tmp_path / "in.txt").write_text("n1\n")
    files = [f"--input={tmp_path / 'in.txt'}", f"--output={tmp_path / 'out.jsonl'}"]
    words = [*words, *(files if command == "infer" else [])]
    outcome = mtf(command, f"--model_dir={tmp_path / where}", *words)
    assert outcome.status == 2
    assert fragment in outcome.err
    (tmp_path / "in.txt").unlink()
    assert hashes(tmp_path) == before


def test_a_folder_without_checkpoint(folder):
    for file in folder.glob("model.ckpt-*"):
        file.unlink()
    outcome = mtf("eval", f"--model_dir={folder}")
    assert outcome.status == 2
    assert f"{folder} has" in outcome.err


@pytest.mark.parametrize("command", ["eval", "infer"])
def test_a_config_that_names_no_task(fixtures_dir, tmp_path, command):
    (tmp_path / "in.txt").write_text("n1\n")
    files = [f"--input={tmp_path / 'in.txt'}", f"--output={tmp_path / 'out.jsonl'}"]
    words = files if command == "infer" else []
    outcome = mtf(command, f"--model_dir={fixtures_dir / 't5_1_1_tiny'}", *words)
    assert outcome.status == 2
    assert "mtf: error: The config names no task to read" in outcome.err


def test_a_split_to_evaluate_that_is_not_there(folder):
    outcome = mtf("eval", f"--model_dir={folder}", "--split=dev")
    assert outcome.status == 2
    assert "no split 'dev' in numbered" in outcome.err


INPUTS = {
    "missing": (None, "in.txt cannot be read: No such file or directory"),
    "empty": (b"", "in.txt is empty: it has no line."),
    "not UTF-8": (b"good\n\xff\n", "in.txt:2: not UTF-8: it has the byte 0xff"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_to_decode(trained, tmp_path, name):
    content, fragment = INPUTS[name]
    given, made = tmp_path / "in.txt", tmp_path / "out.jsonl"
    if content is not None:
        given.write_bytes(content)
    outcome = mtf("infer", f"--model_dir={trained[0]}", f"--input={given}", f"--output={made}")
    assert outcome.status == 2
    assert fragment in outcome.err
    assert not made.exists()


def test_outputs_that_cannot_be_written(trained, tmp_path):
    (tmp_path / "in.txt").write_text("n1\n")
    words = ("infer", f"--model_dir={trained[0]}", f"--input={tmp_path / 'in.txt'}")
    outcome = mtf(*words, f"--output={tmp_path / 'none' / 'out.jsonl'}")
    assert outcome.status == 2
    assert "There is no folder for --output=" in outcome.err
    outcome = mtf(*words, f"--output={tmp_path}")
    assert outcome.status == 2
    assert "is a folder" in outcome.err
