import pytest

from mtf_models.config import parse
from mtf_models.errors import CheckpointError, ConfigError
from mtf_models.runtime.folder.prepare import register
from mtf_models.runtime.folder.run_folder import RunFolder
from mtf_models.runtime.options import ConfigOptions

SMALL = "models/t5.1.1.small.gin"


@pytest.fixture(autouse=True)
def registered():
    register(ConfigOptions())


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        RunFolder(tmp_path / "file")


def test_the_lock_keeps_others_out(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        (folder.path / "metrics.jsonl").touch()
        with pytest.raises(CheckpointError, match="Another process trains in"):
            with RunFolder(tmp_path / "run").locked():
                pass
    with folder.locked():
        pass


def test_a_folder_in_which_nothing_was_written_goes_again(tmp_path):
    with pytest.raises(KeyError), RunFolder(tmp_path / "run").locked():
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_that_was_there_stays(tmp_path):
    with RunFolder(tmp_path).locked():
        pass
    assert tmp_path.is_dir()


def test_a_folder_that_cannot_be_made():
    with pytest.raises(CheckpointError, match="/proc/run cannot be written.*--model_dir"):
        with RunFolder("/proc/run").locked():
            pass


def test_only_files_of_runs_are_deleted(tmp_path):
    ours = [
        "operative_config.gin",
        "model-info.txt",
        "metrics.jsonl",
        "checkpoint",
        "model.ckpt-7.index",
        "model.ckpt-7.data-00001-of-00002",
        "model.ckpt-7.meta",
        "model.ckpt-7.extra.json",
        "events.out.tfevents.1.host.2.0.v2",
    ]
    theirs = [
        "notes.txt",
        "model.ckpt-best",
        "model.ckpt-7.txt",
        "checkpoint.txt",
        "a.gin",
        ".lock",
    ]
    for name in [*ours, *theirs]:
        (tmp_path / name).touch()
    RunFolder(tmp_path).clear()
    assert {file.name for file in tmp_path.iterdir()} == set(theirs)


@pytest.mark.parametrize("theirs", [[], ["notes.txt"]])
def test_the_best_checkpoint_is_deleted_with_the_run(tmp_path, theirs):
    best = tmp_path / "best"
    best.mkdir()
    for name in ["operative_config.gin", "checkpoint", "model.ckpt-3.index", *theirs]:
        (best / name).touch()
    RunFolder(tmp_path).clear()
    assert best.exists() == bool(theirs)
    assert [file.name for file in best.glob("*")] == theirs


def test_what_may_change_in_a_run(tmp_path):
    recorded = parse([SMALL])
    changes = {"steps": 7, "eval_every": 7, "save_every": 7, "keep": 7, "mesh": "batch:7"}
    RunFolder(tmp_path).check_same(recorded, parse([SMALL], overrides=changes))
    with pytest.raises(ConfigError) as refusal:
        RunFolder(tmp_path).check_same(
            recorded, parse([SMALL], ["d_ff = 7", "decoder/LayerStack.norm_epsilon = 1.0"])
        )
    text = str(refusal.value)
    assert "  DenseReluDense.hidden_size: 1024 there, 7 here" in text
    assert "  decoder/LayerStack.norm_epsilon: None there, 1.0 here" in text
    for choice in ("new --model_dir", "--resume", "--overwrite"):
        assert choice in text
