import numpy as np
import pytest
import tensorflow as tf

from mtf_models.checkpoint import Entry, locate, write
from mtf_models.checkpoint.locate import folder_of
from mtf_models.errors import CheckpointError


@pytest.fixture
def folder(tmp_path):
    """Complete checkpoints of steps 5 and 10, one without data of step 7, and one of another name.

    The last is named by no step.
    """
    for name in ("model.ckpt-5", "model.ckpt-10", "model.ckpt-7", "best"):
        write(tmp_path / name, [Entry("x", (4,), tf.float32, [((0,), np.ones(4, np.float32))])])
    (tmp_path / "model.ckpt-7.data-00000-of-00001").unlink()
    return tmp_path


def test_what_a_path_means(folder):
    assert locate(folder) == folder / "model.ckpt-10"
    assert locate(folder, 5) == folder / "model.ckpt-5"
    for ending in ("", ".index", ".data-00000-of-00001"):
        assert locate(f"{folder}/model.ckpt-5{ending}") == folder / "model.ckpt-5"
    assert locate(folder / "model.ckpt-5", 5) == folder / "model.ckpt-5"
    assert locate(folder / "best") == folder / "best"
    for path in (folder, folder / "model.ckpt-5", folder / "best.index"):
        assert folder_of(path) == folder


@pytest.mark.parametrize(
    "path,step,message",
    [
        ("", 6, "no checkpoint of step 6; there are steps 5, 10; torn is model.ckpt-7"),
        ("", 7, "torn is model.ckpt-7: its data files are missing"),
        ("model.ckpt-7", None, "is torn: its data files are missing"),
        ("model.ckpt-5", 10, "is one checkpoint, and step 10 is asked for"),
        ("model.ckpt-6", None, "model.ckpt-6 is torn: its index is missing"),
        ("nothing", None, "There is no checkpoint .*nothing: neither a folder"),
        ("notes.txt", None, "notes.txt is no checkpoint"),
    ],
)
def test_what_is_no_checkpoint(folder, path, step, message):
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=message):
        locate(folder / path, step)


@pytest.mark.parametrize("name", ["a.pt", "pytorch_model.bin", "weights.pkl", "w.pth", "l.ckpt"])
def test_pickles_are_refused_by_name_and_never_opened(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(b"\x80\x04.")
    file.chmod(0)
    for call in (locate, folder_of):
        with pytest.raises(CheckpointError, match="file of pickled objects by its name"):
            call(file)
    with pytest.raises(CheckpointError, match=f"never read: {name}"):
        locate(tmp_path)


def test_an_unreadable_folder_is_an_error(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(tmp_path), "iterdir", refuse)
    with pytest.raises(CheckpointError, match="cannot be read: Permission denied"):
        locate(tmp_path)
