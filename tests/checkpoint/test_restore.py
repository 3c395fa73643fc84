import logging

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.checkpoint import CheckpointManager, Entry, restore, write
from mtf_models.errors import CheckpointError

SHAPES = {"a/rms_norm/scale": "d_model:6", "b": "vocab:16 d_model:6", "c": "d_model:6"}


def save(prefix, **values):
    """Writes arrays in their own dtypes; `/` in names is written `__`."""
    arrays = {name.replace("__", "/"): np.asarray(value) for name, value in values.items()}
    entries = [
        Entry(name, x.shape, tf.as_dtype(x.dtype), [((0,) * x.ndim, x)])
        for name, x in arrays.items()
    ]
    write(prefix, entries)
    return prefix


def ones(n, dtype=np.float32):
    return np.ones([n], dtype)


def test_bfloat16_is_read_exactly(tmp_path, make_variables, values, caplog):
    numbers = [1.0, -2.5, 3.140625, 66048.0]
    prefix = save(tmp_path / "c", x=np.array(numbers, ml_dtypes.bfloat16), y=ones(2))
    variables = make_variables(shapes={"x": "a:4", "y": "b:2"})
    with caplog.at_level(logging.INFO, "mtf_models"):
        restore(prefix, variables)
    np.testing.assert_array_equal(values(variables)["x"], numbers)
    assert caplog.messages == ["cast bf16→fp32: 1 tensors"]

    halves = make_variables(shapes={"x": "a:4", "y": "b:2"}, dtype=tf.float16)
    before = values(halves)
    with pytest.raises(CheckpointError, match="x has values up to 66048, which float16"):
        restore(prefix, halves)
    for name, value in values(halves).items():
        np.testing.assert_array_equal(value, before[name])


def test_names_of_old_norms_and_what_is_said_of_them(tmp_path, make_variables, values, caplog):
    prefix = save(tmp_path / "c", a__layer_norm__scale=ones(6) * 3, b=np.ones([16, 6]), c=ones(6))
    variables = make_variables("model:2", shapes=SHAPES)
    with caplog.at_level(logging.INFO, "mtf_models"):
        restore(prefix, variables)
    np.testing.assert_array_equal(values(variables)["a/rms_norm/scale"], ones(6) * 3)
    assert "1 variables have other names" in caplog.text
    assert "a/layer_norm/scale for a/rms_norm/scale" in caplog.text


def test_a_part_is_taken_only_if_that_is_allowed(tmp_path, make_variables, values, caplog):
    prefix = save(tmp_path / "c", b=np.ones([16, 6]), d=ones(2), e=ones(3))
    variables = make_variables(shapes=SHAPES)
    before = values(variables)
    with pytest.raises(CheckpointError) as error:
        restore(prefix, variables)
    text = str(error.value)
    assert "missing in the checkpoint (2): a/rms_norm/scale [6], c [6]" in text
    assert "left over in the checkpoint (2): d [2], e [3]" in text
    assert "--allow_partial" in text
    np.testing.assert_array_equal(values(variables)["b"], before["b"])

    with caplog.at_level(logging.INFO, "mtf_models"):
        restore(prefix, variables, allow_partial=True)
    np.testing.assert_array_equal(values(variables)["b"], np.ones([16, 6]))
    np.testing.assert_array_equal(values(variables)["c"], before["c"])
    assert "2 variables stay as they are" in caplog.text
    for name in ("a/rms_norm/scale", "c [6]", "d [2]", "e [3]"):
        assert name in caplog.text


def test_another_shape_is_refused_in_any_case(tmp_path, make_variables):
    prefix = save(tmp_path / "c", a__rms_norm__scale=ones(6), b=np.ones([8, 6]), c=ones(5))
    for partial in (False, True):
        with pytest.raises(CheckpointError) as error:
            restore(prefix, make_variables(shapes=SHAPES), allow_partial=partial)
        assert (
            "different (2): b is [8, 6] in the checkpoint and [16, 6] in the model, c is [5]"
            in (str(error.value))
        )


@pytest.mark.parametrize("fresh", [True, False])
def test_damage_in_the_middle_restores_nothing(tmp_path, make_variables, values, fresh):
    numbers = np.random.default_rng(0).standard_normal([3, 64]).astype(np.float32)
    prefix = save(tmp_path / "c", a=numbers[0], b=numbers[1], c=numbers[2])
    (data,) = tmp_path.glob("c.data-*")
    content = bytearray(data.read_bytes())
    for i in (1, 2):
        place = content.index(numbers[i].tobytes())
        content[place + 7] ^= 255
    data.write_bytes(content)

    shapes = dict.fromkeys("abc", "x:64")
    expected = values(make_variables(shapes=shapes))
    store = mtf.VariableStore(mtf.Mesh())
    with store.collecting():
        for name, shape in shapes.items():
            mtf.get_variable(store.mesh, name, shape)
    variables = store.variables if fresh else make_variables(shapes=shapes)
    with pytest.raises(CheckpointError) as error:
        restore(prefix, variables)
    assert all(f"; {name} cannot be read" in str(error.value) for name in "bc")
    assert str(error.value).endswith("Nothing was restored.")
    assert all(v.is_allocated != fresh for v in variables.values())
    if not fresh:
        for name, value in values(variables).items():
            np.testing.assert_array_equal(value, expected[name])


def test_several_checkpoints_lack_shards_in_several_ways(tmp_path, make_variables):
    (tmp_path / "model.ckpt-1.index").write_bytes(b"")
    save(tmp_path / "model.ckpt-2", a=ones(4))
    (tmp_path / "model.ckpt-2.data-00000-of-00001").rename(
        tmp_path / "model.ckpt-2.data-00001-of-00003"
    )
    manager = CheckpointManager(tmp_path)
    with pytest.raises(CheckpointError) as error:
        manager.restore(2, make_variables(shapes={"a": "x:4"}))
    assert "data file 00000-of-00003 is missing; data file 00002-of-00003 is missing" in (
        str(error.value)
    )
    assert manager.steps() == []


def test_an_output_kernel_that_all_members_of_an_ensemble_have(tmp_path, make_variables, values):
    kernel = np.random.default_rng(0).standard_normal([3, 5]).astype(np.float32)
    prefix = save(tmp_path / "c", decoder__logits__kernel=kernel, other=kernel)
    shapes = {"decoder/logits/kernel": "ensemble:2 d_model:3 vocab:5", "other": "a:3 b:5"}
    variables = make_variables(shapes=shapes)
    restore(prefix, variables)
    np.testing.assert_array_equal(
        values(variables)["decoder/logits/kernel"], np.stack([kernel, kernel])
    )
    shapes["other"] = "ensemble:2 a:3 b:5"
    with pytest.raises(CheckpointError, match=r"different \(1\): other is \[3, 5\]"):
        restore(prefix, make_variables(shapes=shapes))
