import resource

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from mtf_models.checkpoint import Entry, Reader, bundle, write
from mtf_models.errors import CheckpointError

GRID = np.arange(32, dtype=np.float32).reshape(8, 4)


def whole(name, value, dtype=None):
    return Entry(name, value.shape, dtype or tf.as_dtype(value.dtype), [((0,) * value.ndim, value)])


def test_tensorflow_reads_what_was_written(tmp_path):
    entries = [
        Entry("a/kernel", (8, 4), tf.float32, [((0, 0), GRID[:, :2]), ((0, 2), GRID[:, 2:])]),
        whole("b", np.array([1, -2.5], ml_dtypes.bfloat16)),
        whole("global_step", np.array(7, np.int64)),
        whole("none", np.zeros((0, 3), np.float32)),
    ]
    write(
        tmp_path / "model.ckpt-7", entries, {"checkpoint": 'model_checkpoint_path: "model.ckpt-7"'}
    )

    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "checkpoint",
        "model.ckpt-7.data-00000-of-00001",
        "model.ckpt-7.index",
    ]
    reader = tf.train.load_checkpoint(str(tmp_path))  # finds it by the state file
    assert reader.get_variable_to_shape_map() == {
        "a/kernel": [8, 4],
        "b": [2],
        "global_step": [],
        "none": [0, 3],
    }
    assert reader.get_variable_to_dtype_map()["b"] == tf.bfloat16
    np.testing.assert_array_equal(reader.get_tensor("a/kernel"), GRID)
    np.testing.assert_array_equal(reader.get_tensor("b").astype(np.float32), [1, -2.5])
    assert reader.get_tensor("global_step") == 7


def test_large_checkpoints_are_written_in_several_data_files(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "_SHARD_BYTES", 100)
    write(tmp_path / "model.ckpt-1", [whole(f"v{i}", GRID + i) for i in range(5)])

    assert len(list(tmp_path.glob("*.data-*-of-00005"))) == 5
    reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-1"))
    for i in range(5):
        np.testing.assert_array_equal(reader.get_tensor(f"v{i}"), GRID + i)


def test_variables_are_asked_for_one_after_another(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "_SHARD_BYTES", 2 * GRID.nbytes)
    on_disk = []

    def slices():
        on_disk.append(sum(f.stat().st_size for f in tmp_path.rglob("*.data-*")))
        yield (0, 0), GRID

    write(tmp_path / "c", [Entry(f"v{i}", (8, 4), tf.float32, slices()) for i in range(6)])
    assert on_disk == [0, 0, 256, 256, 512, 512]


def test_reader_reads_wholes_and_boxes(tmp_path):
    parts = [((0, 0), GRID[:4]), ((4, 0), GRID[4:])]
    write(tmp_path / "c", [Entry("x", (8, 4), tf.bfloat16, parts), whole("y", np.array(3.0))])
    reader = Reader(tmp_path / "c")

    assert reader.names == ["x", "y"]
    assert (reader.shape("x"), reader.dtype("x")) == ((8, 4), tf.bfloat16)
    assert reader.read("x").dtype == ml_dtypes.bfloat16
    assert reader.read("y").shape == ()
    box = reader.read_slice("x", (3, 1), (2, 2))
    np.testing.assert_array_equal(box.astype(np.float32), [[13, 14], [17, 18]])
    np.testing.assert_array_equal(reader.read_slice("y", (), ()), 3)


def test_unknown_names_are_refused_with_the_nearest(tmp_path):
    write(tmp_path / "c", [whole("encoder/scale", GRID)])
    for read in (Reader(tmp_path / "c").read, Reader(tmp_path / "c").shape):
        with pytest.raises(CheckpointError, match="did you mean encoder/scale"):
            read("encoder/scales")
    with pytest.raises(CheckpointError, match="no checkpoint .*index is missing"):
        Reader(tmp_path / "d")


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [((0, 0), GRID[:4])],
        [((0, 0), GRID[:5]), ((4, 0), GRID[4:])],
        [((0, 0), GRID[:4]), ((0, 0), GRID[:4])],
        [((4, 0), GRID)],
        [((0, 0), GRID[:4]), ((0, 0), GRID[:2]), ((6, 0), GRID[6:])],
    ],
    ids=["none", "missing", "overlapping", "twice", "outside", "balanced"],
)
def test_slices_must_cover_a_variable_exactly_once(tmp_path, parts):
    with pytest.raises(CheckpointError, match=r"a/x \[8, 4\] do not cover it exactly once"):
        write(tmp_path / "c", [whole("good", GRID), Entry("a/x", (8, 4), tf.float32, parts)])
    assert not list(tmp_path.iterdir())


def test_a_name_given_twice_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="given twice.*: x"):
        write(tmp_path / "c", [whole("x", GRID), whole("x", GRID)])


def test_a_disk_too_small_is_noticed_before_anything_is_read(tmp_path):
    def slices():
        raise AssertionError("read")
        yield

    huge = Entry("x", (2**50,), tf.float32, slices())
    with pytest.raises(CheckpointError, match="no space.*needs 4,503,599,627,370,496 bytes") as e:
        write(tmp_path / "runs" / "c", [huge])
    assert "are free" in str(e.value)
    assert not list(tmp_path.rglob("*"))


def test_a_disk_that_fills_while_writing_changes_nothing(tmp_path, hashes):
    write(tmp_path / "model.ckpt-1", [whole("x", GRID)], {"checkpoint": "old"})
    before = hashes(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        with pytest.raises(CheckpointError) as e:
            large = whole("x", np.zeros(2**20, np.float32))
            write(tmp_path / "model.ckpt-2", [large], {"checkpoint": "new"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert "File too large. It needs 4,194,304 bytes" in str(e.value)
    assert "Op:" not in str(e.value)
    assert hashes(tmp_path) == before
    assert not [f for f in tmp_path.iterdir() if f.is_dir()]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="Cannot write checkpoint .*(exists|directory)"):
        write(tmp_path / "file" / "model.ckpt-1", [whole("x", GRID)])
    assert (tmp_path / "file").read_text() == "mine"


def test_an_interrupt_while_writing_leaves_no_traces(tmp_path):
    def slices():
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "c", [whole("y", GRID), Entry("x", (8, 4), tf.float32, slices())])
    assert not list(tmp_path.iterdir())


def test_a_move_that_fails_is_undone(tmp_path, hashes, monkeypatch):
    from mtf_models.checkpoint import publish

    write(tmp_path / "c", [whole("x", GRID)])
    before = hashes(tmp_path)
    move = publish.os.replace

    def refuse(source, target):
        if str(target) == str(tmp_path / "c.index") and "replaced" not in str(source):
            raise OSError(5, "Input/output error")
        move(source, target)

    monkeypatch.setattr(publish.os, "replace", refuse)
    with pytest.raises(CheckpointError, match="Input/output error"):
        write(tmp_path / "c", [whole("x", GRID + 1), whole("y", GRID)])
    assert hashes(tmp_path) == before
