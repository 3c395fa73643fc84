import json
import logging
import shutil

import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.checkpoint import SLOTS, CheckpointManager
from mtf_models.errors import CheckpointError

MESHES = ["batch:4;model:2", "model:8", ""]


@pytest.mark.parametrize("written", MESHES)
@pytest.mark.parametrize("read", MESHES)
def test_a_checkpoint_goes_from_mesh_to_mesh(tmp_path, make_variables, values, written, read):
    source, target = make_variables(written), make_variables(read, seed=1)
    expected = values(source)
    CheckpointManager(tmp_path).save(5, source, {"examples": 37})

    plain = tf.train.load_checkpoint(str(tmp_path))
    assert set(plain.get_variable_to_shape_map()) == {*source, "global_step"}
    assert plain.get_tensor("global_step") == 5
    for name, value in expected.items():
        np.testing.assert_array_equal(plain.get_tensor(name), value)

    extra = CheckpointManager(tmp_path).restore(5, target)
    assert extra == {"examples": 37}
    for name, value in values(target).items():
        np.testing.assert_array_equal(value, expected[name])


def test_master_dtype_is_written_and_any_dtype_restored(tmp_path, make_variables, values, caplog):
    kept = mtf.VariableDType(tf.bfloat16, tf.float32, tf.float32)
    source = make_variables("model:2", dtype=kept)
    with caplog.at_level(logging.INFO, "mtf_models"):
        CheckpointManager(tmp_path).save(1, source)
        target = make_variables("model:2", seed=1, dtype=kept)
        CheckpointManager(tmp_path).restore(1, target)
    assert caplog.messages == [
        "cast fp32→bf16: 5 tensors",
        "cast bf16→fp32: 5 tensors",
    ]
    dtypes = tf.train.load_checkpoint(str(tmp_path)).get_variable_to_dtype_map()
    assert {dtypes[name] for name in source} == {tf.bfloat16}
    for name, value in values(target).items():
        rounded = tf.cast(tf.cast(source[name].numpy(), tf.bfloat16), tf.float32)
        np.testing.assert_array_equal(value, rounded)


def test_a_checkpoint_of_the_original_is_restored(tmp_path, make_variables, values, fixtures_dir):
    for file in (fixtures_dir / "t5_1_1_tiny").glob("model.ckpt-3.*"):
        shutil.copyfile(file, tmp_path / file.name)
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "/somewhere/else/model.ckpt-3"\n'
        'all_model_checkpoint_paths: "/somewhere/else/model.ckpt-3"\n'
    )
    attention = "encoder/block_000/layer_000/SelfAttention"
    shapes = {
        f"{attention}/q": "d_model:32 heads:48",
        f"{attention}/q_slot_vr": "d_model:32",
        f"{attention}/q_slot_vc": "heads:48",
        "shared/embedding": "vocab:128 d_model:32",
        "decoder/logits/kernel": "d_model:32 vocab:128",
    }
    variables = make_variables("batch:4;model:2", shapes=shapes)
    manager = CheckpointManager(tmp_path)
    assert (manager.steps(), manager.latest()) == ([3], 3)
    assert manager.restore(3, variables, allow_left_over=["*coder/*", *SLOTS]) == {}

    original = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-3"))
    for name, value in values(variables).items():
        np.testing.assert_array_equal(value, original.get_tensor(name))


def test_weights_alone_are_restored_beside_slots(tmp_path, make_variables, caplog):
    variables = make_variables()
    CheckpointManager(tmp_path).save(1, variables)
    weights = {n: v for n, v in make_variables(seed=1).items() if "_slot_" not in n}
    with pytest.raises(
        CheckpointError, match=r"left over .* \(1\): encoder/wi/kernel_slot_vr \[6\]"
    ):
        CheckpointManager(tmp_path).restore(1, weights)
    with caplog.at_level(logging.DEBUG, "mtf_models"):
        CheckpointManager(tmp_path).restore(1, weights, allow_left_over=SLOTS)
    assert "1 are not needed: ['encoder/wi/kernel_slot_vr']" in caplog.text

    CheckpointManager(tmp_path / "weights").save(1, weights)
    slot = variables["encoder/wi/kernel_slot_vr"].numpy()
    with pytest.raises(CheckpointError, match=r"missing .* \(1\): encoder/wi/kernel_slot_vr \[6\]"):
        CheckpointManager(tmp_path / "weights").restore(1, variables)
    CheckpointManager(tmp_path / "weights").restore(1, variables, allow_missing=SLOTS)
    np.testing.assert_array_equal(variables["encoder/wi/kernel_slot_vr"].numpy(), slot)


def test_all_differences_are_told_at_once_and_nothing_is_assigned(tmp_path, make_variables, values):
    CheckpointManager(tmp_path).save(1, make_variables())
    other = {
        "shared/embedding": "vocab:16 d_model:4",
        "encoder/wi/kernel": "d_ff:8 d_model:6",
        "encoder/rms_norm": "d_model:6",
        "decoder/scale": "d_model:4",
        "temperature": "",
    }
    variables = make_variables(seed=1, shapes=other)
    before = values(variables)
    with pytest.raises(CheckpointError) as e:
        CheckpointManager(tmp_path).restore(1, variables)
    lines = str(e.value).splitlines()
    assert lines[1:4] == [
        "  missing in the checkpoint (2): encoder/rms_norm [6], decoder/scale [4]",
        "  left over in the checkpoint (2): encoder/scale [6], encoder/wi/kernel_slot_vr [6]",
        "  different (2): shared/embedding is [16, 6] in the checkpoint and [16, 4] in the model, "
        "encoder/wi/kernel is [6, 8] in the checkpoint and [8, 6] in the model",
    ]
    for name, value in values(variables).items():
        np.testing.assert_array_equal(value, before[name])


def test_whole_numbers_are_not_taken_for_others(tmp_path, make_variables):
    CheckpointManager(tmp_path).save(1, make_variables(shapes={"a": "x:2"}))
    counts = make_variables(shapes={"a": "x:2"}, dtype=tf.int32)
    with pytest.raises(CheckpointError, match="a is float32 in the checkpoint and int32 in the"):
        CheckpointManager(tmp_path).restore(1, counts)


def test_the_latest_are_kept(tmp_path, make_variables):
    variables = make_variables()
    manager = CheckpointManager(tmp_path, keep=2)
    for step in (5, 10, 15, 20):
        manager.save(step, variables, {"at": step})
        assert manager.latest() == step
    assert manager.steps() == [15, 20]
    names = {f.name for f in tmp_path.iterdir()}
    assert names == {"checkpoint"} | {
        f"model.ckpt-{n}.{end}"
        for n in (15, 20)
        for end in ("index", "data-00000-of-00001", "extra.json")
    }
    assert (tmp_path / "checkpoint").read_text() == (
        'model_checkpoint_path: "model.ckpt-20"\n'
        'all_model_checkpoint_paths: "model.ckpt-15"\n'
        'all_model_checkpoint_paths: "model.ckpt-20"\n'
    )
    assert json.loads((tmp_path / "model.ckpt-15.extra.json").read_text()) == {"at": 15}
    with pytest.raises(CheckpointError, match="keep at least 1"):
        CheckpointManager(tmp_path, keep=0)


def test_checkpoints_of_others_are_not_removed(tmp_path, make_variables):
    variables = make_variables()
    CheckpointManager(tmp_path).save(1, variables)
    (tmp_path / "model.ckpt-1.extra.json").unlink()  # as the original leaves them
    manager = CheckpointManager(tmp_path, keep=1)
    for step in (2, 3):
        manager.save(step, variables)
    assert manager.steps() == [1, 3]


def test_a_checkpoint_of_another_run_is_not_written_over(tmp_path, make_variables, hashes):
    variables = make_variables()
    CheckpointManager(tmp_path).save(3, variables)
    before = hashes(tmp_path)
    with pytest.raises(CheckpointError, match="model.ckpt-3 exists and was not written by this"):
        CheckpointManager(tmp_path).save(3, make_variables(seed=1))
    assert hashes(tmp_path) == before


def test_a_run_that_went_back_replaces_what_came_after(tmp_path, make_variables, caplog):
    first = CheckpointManager(tmp_path)
    for step in (5, 10, 15):
        first.save(step, make_variables(seed=step))
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\n')

    manager = CheckpointManager(tmp_path, keep=2)
    assert manager.latest() == 5
    variables = make_variables()
    manager.restore(5, variables)
    with pytest.raises(CheckpointError, match="model.ckpt-5 exists"):
        manager.save(5, variables)
    manager.save(10, variables)
    assert (manager.steps(), manager.latest()) == ([5, 10, 15], 10)
    stored = tf.train.load_checkpoint(str(tmp_path)).get_tensor("shared/embedding")
    np.testing.assert_array_equal(stored, make_variables(seed=5)["shared/embedding"].numpy())
    assert f"Replacing {tmp_path / 'model.ckpt-10'}" in caplog.text


@pytest.mark.parametrize("text", [b"\xff\xfe no text", b"no such field: 1", b""])
def test_a_spoilt_list_of_checkpoints_is_no_loss(tmp_path, make_variables, text):
    manager = CheckpointManager(tmp_path)
    manager.save(5, make_variables("", seed=0))
    (tmp_path / "checkpoint").write_bytes(text)
    assert manager.chosen(None) == 5


def test_a_step_counter_among_the_variables_is_global_step(tmp_path, make_variables):
    store = mtf.VariableStore(mtf.Mesh())
    with store.eager():
        mtf.get_variable(store.mesh, "global_step", "", tf.int32, initializer=lambda *_: 4)
    manager = CheckpointManager(tmp_path)
    manager.save(4, store.variables)
    assert tf.train.load_checkpoint(str(tmp_path)).get_tensor("global_step").dtype == np.int64
    store.variables["global_step"].assign(0)
    manager.restore(4, store.variables)
    assert store.variables["global_step"].numpy() == 4
    with pytest.raises(CheckpointError, match="global_step is 4 and step 5 is to be saved"):
        manager.save(5, store.variables)


def test_an_empty_folder_has_no_checkpoint(tmp_path, make_variables):
    manager = CheckpointManager(tmp_path / "none")
    assert (manager.steps(), manager.latest()) == ([], None)
    with pytest.raises(CheckpointError, match="its index is missing. Complete steps there: none"):
        manager.restore(1, make_variables())
    assert not (tmp_path / "none").exists()
