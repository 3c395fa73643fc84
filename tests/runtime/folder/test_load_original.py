"""Folders of the original, as they are found: old names, several steps, parts, damage."""

import logging
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.checkpoint import Entry, Reader, write
from mtf_models.errors import CheckpointError

NAME = "t5_1_0_tiny"
Q = "encoder/block_000/layer_000/SelfAttention/q"


@pytest.fixture
def folder(fixtures_dir, tmp_path):
    """A folder of the original that a test may change."""
    return shutil.copytree(fixtures_dir / NAME, tmp_path / NAME)


def rewrite(folder, step, change):
    """Replaces a checkpoint by what `change` makes of its variables."""
    reader = Reader(folder / f"model.ckpt-{step}")
    values = change({name: reader.read(name) for name in reader.names})
    entries = [
        Entry(name, x.shape, tf.as_dtype(x.dtype), [((0,) * x.ndim, x)])
        for name, x in values.items()
    ]
    write(reader.prefix, entries)


def stored(folder, step, name):
    return tf.train.load_checkpoint(f"{folder}/model.ckpt-{step}").get_tensor(name)


def test_a_checkpoint_in_the_folder(folder):
    for path, step in [(folder, None), (folder / "model.ckpt-3.index", None), (folder, 3)]:
        model = mtf.load_model(path, step=step)
        np.testing.assert_array_equal(model.variables[Q].numpy(), stored(folder, 3, Q))
    model = mtf.load_model(folder / "model.ckpt-0")
    np.testing.assert_array_equal(model.variables[Q].numpy(), stored(folder, 0, Q))


def test_norms_under_their_old_names(folder, caplog):
    def old(values):
        inner = {n.replace("/rms_norm/", "/layer_norm/"): x for n, x in values.items()}
        final = re.compile(r"^(\w+)/layer_norm/")
        return {final.sub(r"\1/final_layer_norm/", n): x for n, x in inner.items()}

    right = stored(folder, 3, "encoder/rms_norm/scale")
    rewrite(folder, 3, old)
    assert stored(folder, 3, "encoder/final_layer_norm/scale").shape == right.shape
    with caplog.at_level(logging.INFO, "mtf_models"):
        model = mtf.load_model(folder)
    np.testing.assert_array_equal(model.variables["encoder/rms_norm/scale"].numpy(), right)
    assert "12 variables have other names" in caplog.text

    trainer = mtf.Trainer(model)
    trainer.restore(folder)
    slots = {n: v.numpy() for n, v in trainer.variables.items() if n.endswith("norm/scale_slot_v")}
    assert len(slots) == 12
    right = stored(folder, 3, "encoder/final_layer_norm/scale_slot_v")
    np.testing.assert_array_equal(slots["encoder/rms_norm/scale_slot_v"], right)


def test_bfloat16_masters(folder, caplog):
    rewrite(folder, 3, lambda values: {n: _rounded(n, x) for n, x in values.items()})
    with caplog.at_level(logging.INFO, "mtf_models"):
        model = mtf.load_model(folder)
    right = stored(folder, 3, Q).astype(np.float32)
    np.testing.assert_array_equal(model.variables[Q].numpy(), right)
    assert f"cast bf16→fp32: {len(model.variables)} tensors" in caplog.messages


def test_what_a_run_of_the_original_leaves(caplog):
    """Two data files, bfloat16 masters and an operative config, as `utils.run` wrote them."""
    folder = Path(__file__).parents[2] / "integration" / "cli_run_tiny"
    recorded = np.load(folder / "io.npz")
    with caplog.at_level(logging.INFO, "mtf_models"):
        model = mtf.load_model(folder)
    assert "cast bf16→fp32: 52 tensors" in caplog.messages
    output = model({name: recorded[f"plain/{name}"] for name in ("inputs", "targets")})
    right = recorded["eval/logits"][0]
    assert np.max(np.abs(output.logits.numpy() - right)) < 1e-5 * np.max(np.abs(right))
    assert float(output.loss) == pytest.approx(float(recorded["eval/loss"]), rel=1e-5)


def test_a_part_of_a_model(folder, caplog):
    def change(values):
        del values[Q]
        return {**values, "encoder/added": np.ones(3, np.float32)}

    rewrite(folder, 3, change)
    with pytest.raises(CheckpointError) as error:
        mtf.load_model(folder)
    assert f"missing in the checkpoint (1): {Q} [32, 32]" in str(error.value)
    assert "left over in the checkpoint (1): encoder/added [3]" in str(error.value)
    model = mtf.load_model(folder, allow_partial=True)
    assert f"1 variables stay as they are, at their initial values if new: {Q}." in caplog.text
    assert "encoder/added [3]" in caplog.text
    np.testing.assert_array_equal(
        model.variables["encoder/rms_norm/scale"].numpy(),
        stored(folder, 3, "encoder/rms_norm/scale"),
    )


def test_a_run_goes_on_without_slots_but_not_with_some(folder, caplog):
    names = [n for n in Reader(folder / "model.ckpt-3").names if "_slot_" in n]
    rewrite(folder, 3, lambda values: {n: x for n, x in values.items() if n not in names})
    trainer = mtf.Trainer(mtf.load_model(folder))
    with caplog.at_level(logging.INFO, "mtf_models"):
        trainer.restore(folder)
    assert trainer.step_number == 3
    assert f"{len(names)} optimizer slots are not in" in caplog.text
    rewrite(folder, 3, lambda values: {**values, names[0]: np.ones(32, np.float32)})
    with pytest.raises(CheckpointError, match=rf"missing in the checkpoint \({len(names) - 1}\)"):
        trainer.restore(folder)


@pytest.mark.parametrize(
    "damage,message",
    [
        ("truncated", "its data files have .* bytes and the index speaks of"),
        ("no data", "its data files are missing"),
        ("no shard", "data file 00001-of-00002 is missing"),
        ("no index", "its index is missing"),
    ],
)
def test_torn_checkpoints(folder, damage, message):
    data = folder / "model.ckpt-3.data-00000-of-00001"
    if damage == "truncated":
        data.write_bytes(data.read_bytes()[:-1000])
    elif damage == "no index":
        (folder / "model.ckpt-3.index").unlink()
    elif damage == "no shard":
        data.rename(folder / "model.ckpt-3.data-00000-of-00002")
    else:
        data.unlink()
    for path, step in [(folder, 3), (folder / "model.ckpt-3", None)]:
        with pytest.raises(CheckpointError, match=message):
            mtf.load_model(path, step=step)


def test_pickles_are_refused(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"\x80\x04.")
    with pytest.raises(CheckpointError, match=r"model\.pt is a file of pickled objects"):
        mtf.load_model(tmp_path / "model.pt")


def _rounded(name, value):
    if name == "global_step" or "_slot_" in name:
        return value
    return value.astype(tf.bfloat16.as_numpy_dtype)


def test_a_folder_that_cannot_be_read(folder, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(folder), "is_file", refuse)
    with pytest.raises(CheckpointError, match="cannot be read: Permission denied"):
        mtf.load_model(folder)
