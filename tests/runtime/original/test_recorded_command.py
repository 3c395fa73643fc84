"""When a command is recorded in its run folder."""

import sys

import pytest

from mtf_models.errors import ConfigError, TrainingDiverged
from mtf_models.runtime.options import RunOptions
from mtf_models.runtime.original import model_api
from mtf_models.runtime.original.mtf_model import MtfModel
from mtf_models.runtime.original.recorded_command import recorded_command
from mtf_models.runtime.training.stop import Stopped


@pytest.fixture(autouse=True)
def typed(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mtf", "run", "--gin_param=a = 1"])


def recorded(folder):
    return {file.name: file.read_text() for file in folder.glob("commands/*")}


@pytest.mark.parametrize("end", [None, Stopped(2), KeyboardInterrupt(), TrainingDiverged("nan")])
def test_it_is_recorded_however_the_work_ends(tmp_path, end):
    line = "mtf run '--gin_param=a = 1'\n"
    for number in range(2):
        try:
            with recorded_command(tmp_path):
                if end is not None:
                    raise end
        except type(end):
            pass
        assert len(recorded(tmp_path)) == number + 1
    assert recorded(tmp_path) == {"command": line, "command.1": line}


def test_what_is_refused_changes_nothing(tmp_path):
    with pytest.raises(ConfigError), recorded_command(tmp_path):
        raise ConfigError("refused")
    with recorded_command(tmp_path / "nowhere"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["train", "finetune"])
def test_training_by_the_model_api_is_recorded(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(MtfModel, mode, lambda *_: None)
    folder = str(tmp_path)
    model_api.run(RunOptions(model_dir=folder, mode=mode, pretrained_model_dir="other"))
    assert list(recorded(tmp_path)) == ["command"]
