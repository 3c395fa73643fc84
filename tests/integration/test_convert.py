"""`mtf convert` on checkpoints."""

import re
import shutil

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from commands import mtf

from mtf_models.checkpoint import Entry, write

Q = "encoder/block_000/layer_000/SelfAttention/q"


def make(folder, step, value, dtype=tf.float32, **others):
    """A checkpoint of a few variables that all have one value."""
    values = {"a/kernel": np.full([3, 2], value), "a/kernel_slot_v": np.full([3, 2], -value)}
    values |= {name: np.asarray(x, np.float64) for name, x in others.items()}
    entries = [
        Entry(name, x.shape, dtype if "slot" not in name else tf.float32, [((0,) * x.ndim, x)])
        for name, x in values.items()
    ]
    entries.append(Entry("global_step", (), tf.int64, [((), np.array(step))]))
    write(folder / f"model.ckpt-{step}", entries)
    return folder


def read(folder):
    """Everything that TensorFlow's own reader finds in a folder, by name."""
    reader = tf.train.load_checkpoint(str(folder))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_average(tmp_path):
    sources = [make(tmp_path / n, i, v) for i, (n, v) in enumerate([("a", 1.0), ("b", 2.5)])]
    outcome = mtf("convert", *sources, "--average", f"--output={tmp_path / 'out'}")
    assert outcome.status == 0
    found = read(tmp_path / "out")
    assert sorted(found) == ["a/kernel", "global_step"]
    np.testing.assert_array_equal(found["a/kernel"], np.full([3, 2], 1.75))
    assert found["global_step"] == 1
    assert "left out   1 optimizer slots" in outcome.out
    assert "has no config" in outcome.err
    assert "cast" not in outcome.out + outcome.err

    words = ("--average", "--keep_slots", "--global_step=7", "--dtype=bfloat16")
    outcome = mtf("convert", *sources, *words, f"--output={tmp_path / 'kept'}")
    assert "cast fp32→bf16: 1 tensors" in outcome.err
    found = read(tmp_path / "kept")
    np.testing.assert_array_equal(found["a/kernel_slot_v"], np.full([3, 2], -1.75))
    assert found["a/kernel"].dtype == ml_dtypes.bfloat16
    assert found["a/kernel_slot_v"].dtype == np.float32
    assert found["global_step"] == 7


def test_average_of_the_last(tmp_path):
    for step, value in [(10, 100.0), (20, 1.0), (30, 2.0), (40, 6.0)]:
        make(tmp_path / "a", step, value)
    words = ("convert", tmp_path / "a", "--average_last_n=3")
    assert mtf(*words, f"--output={tmp_path / 'out'}").status == 0
    assert read(tmp_path / "out")["a/kernel"][0, 0] == 3.0
    mtf("convert", tmp_path / "a", "--average_last_n=2", "--step=30", f"--output={tmp_path / 'b'}")
    assert read(tmp_path / "b")["a/kernel"][0, 0] == 1.5
    outcome = mtf("convert", tmp_path / "a", "--average_last_n=5", f"--output={tmp_path / 'c'}")
    assert outcome.status == 2
    assert "4 complete checkpoints, steps 10, 20, 30, 40" in outcome.err


def test_there_and_back_through_an_ensemble(tmp_path, fixtures_dir):
    source = shutil.copytree(fixtures_dir / "t5_1_1_tiny", tmp_path / "source")
    steps = [f"{source}/model.ckpt-{step}" for step in (0, 3)]
    mtf("convert", *steps, "--ensemble", f"--output={tmp_path / 'both'}")
    right = [tf.train.load_checkpoint(step).get_tensor(Q) for step in steps]
    np.testing.assert_array_equal(read(tmp_path / "both")[Q], np.stack(right))
    config = (tmp_path / "both" / "operative_config.gin").read_text()
    assert _ensembles(config) == {"": "2", "encoder/": "2", "decoder/": "2"}

    again = tmp_path / "again"
    for words in (("--autoensemble=2",), (tmp_path / "both", "--ensemble")):
        outcome = mtf("convert", tmp_path / "both", *words, f"--output={again}")
        assert (outcome.status, again.exists()) == (2, False)
        assert "is an ensemble of 2 already" in outcome.err

    mtf("convert", tmp_path / "both", "--extract_first", f"--output={tmp_path / 'one'}")
    np.testing.assert_array_equal(read(tmp_path / "one")[Q], right[0])
    config = (tmp_path / "one" / "operative_config.gin").read_text()
    assert set(_ensembles(config).values()) == {"None"}

    mtf("convert", source, "--autoensemble=3", "--keep_slots", f"--output={tmp_path / 'equal'}")
    np.testing.assert_array_equal(read(tmp_path / "equal")[Q], np.stack([right[1]] * 3))
    slot = tf.train.load_checkpoint(steps[1]).get_tensor(f"{Q}_slot_vr")
    np.testing.assert_array_equal(read(tmp_path / "equal")[f"{Q}_slot_vr"], np.stack([slot] * 3))


def test_an_ensemble_of_what_cannot_be_in_one_is_not_written(tmp_path, fixtures_dir):
    source = fixtures_dir / "bi_switch_tiny"
    outcome = mtf("convert", source, "--autoensemble=2", f"--output={tmp_path / 'both'}")
    assert outcome.status == 2
    assert "MoE1D is a mixture of experts, which an ensemble cannot have" in outcome.err
    assert list(tmp_path.iterdir()) == []


def _ensembles(config):
    """What a config binds last, by scope."""
    found = re.findall(r"^(.*)Unitransformer\.ensemble = (\w+)$", config, re.MULTILINE)
    return dict(found)


def test_what_does_not_fit_is_refused_and_nothing_written(tmp_path):
    one = make(tmp_path / "one", 1, 1.0, b=[1.0])
    other = make(tmp_path / "other", 2, 1.0, b=[1.0, 2.0], c=0.0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    out = tmp_path / "out"
    for words, message in [
        ((one, other, "--average"), r"b: [1] in"),
        ((one, other, "--ensemble"), "c: missing in"),
        ((one, "--average"), "One checkpoint cannot"),
        ((one, other), "2 sources are given"),
        ((one, "--extract_first"), "no ensemble"),
        ((one, "--dtype=int32"), "whole numbers"),
        ((one, "--to=mesh_ft"), "did you mean mesh_tf"),
        ((tmp_path / "nothing",), "There is no checkpoint"),
    ]:
        outcome = mtf("convert", *words, f"--output={out}")
        assert (outcome.status, message in outcome.err) == (2, True), outcome.err
        assert not out.exists()
    outcome = mtf("convert", one, f"--output={tmp_path / 'full'}")
    assert (outcome.status, "is not empty" in outcome.err) == (2, True)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["full", "one", "other"]


def test_values_too_large_for_a_dtype_are_refused(tmp_path):
    source = make(tmp_path / "a", 1, 66048.0)
    outcome = mtf("convert", source, "--dtype=float16", f"--output={tmp_path / 'out'}")
    assert outcome.status == 2
    assert "a/kernel has values up to 66048, which float16 cannot hold" in outcome.err
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a"]


@pytest.mark.parametrize("flags", [("--average", "--ensemble"), ("--average_last_n=0",)])
def test_flags_are_checked_first(tmp_path, flags):
    outcome = mtf("convert", "a", "b", *flags, f"--output={tmp_path}")
    assert outcome.status == 2
    assert "mtf convert: error" in outcome.err


def test_a_checkpoint_by_other_names_is_refused(tmp_path):
    prefix = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).save(str(tmp_path / "a" / "ckpt"))
    outcome = mtf("convert", prefix, f"--output={tmp_path / 'out'}")
    assert outcome.status == 2
    assert "it holds text, _CHECKPOINTABLE_OBJECT_GRAPH" in outcome.err
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a"]
