import numpy as np
import pytest

from mtf_models.checkpoint import CheckpointManager
from mtf_models.errors import CheckpointError


def _shorten(file):
    file.write_bytes(file.read_bytes()[:-1])


TEARS = {
    "no index": ("index", lambda file: file.unlink(), "its index is missing"),
    "half an index": ("index", _shorten, "its index is damaged"),
    "no data": ("data-00000-of-00001", lambda file: file.unlink(), "its data files are missing"),
    "short data": ("data-00000-of-00001", _shorten, "have 635 bytes and the index speaks of 636"),
    "a shard missing": (
        "data-00000-of-00001",
        lambda file: file.rename(file.with_name("model.ckpt-10.data-00000-of-00002")),
        "data file 00001-of-00002 is missing",
    ),
}


@pytest.mark.parametrize("tear", TEARS)
def test_a_torn_checkpoint_is_ignored_and_left_in_place(
    tmp_path, make_variables, hashes, caplog, tear
):
    suffix, damage, reason = TEARS[tear]
    for step in (5, 10):
        CheckpointManager(tmp_path).save(step, make_variables(seed=step))
    damage(tmp_path / f"model.ckpt-10.{suffix}")
    before = hashes(tmp_path)

    manager = CheckpointManager(tmp_path)
    assert (manager.steps(), manager.latest()) == ([5], 5)
    warnings = [m for m in caplog.messages if m.startswith("Ignored torn checkpoint")]
    assert len(warnings) == 1 and "model.ckpt-10: " in warnings[0] and reason in warnings[0]
    with pytest.raises(CheckpointError, match=rf"model.ckpt-10: .*{reason}.*steps there: 5"):
        manager.restore(10, make_variables())
    assert hashes(tmp_path) == before

    manager.restore(5, make_variables())
    manager.save(10, make_variables(seed=11))  # takes the place of the torn one
    assert CheckpointManager(tmp_path).latest() == 10
    assert not list(tmp_path.glob("*-of-00002"))


def test_damaged_data_are_an_error_that_names_the_variable(tmp_path, make_variables):
    CheckpointManager(tmp_path).save(1, make_variables(shapes={"a/kernel": "x:8"}))
    data = tmp_path / "model.ckpt-1.data-00000-of-00001"
    content = np.frombuffer(data.read_bytes(), np.uint8)
    data.write_bytes((content ^ 1).tobytes())
    with pytest.raises(CheckpointError, match="is damaged; a/kernel cannot be read.*Checksum"):
        CheckpointManager(tmp_path).restore(1, make_variables(shapes={"a/kernel": "x:8"}))


def test_damaged_extra_is_an_error_before_anything_is_assigned(tmp_path, make_variables, values):
    CheckpointManager(tmp_path).save(1, make_variables())
    (tmp_path / "model.ckpt-1.extra.json").write_text('{"position": ')
    variables = make_variables(seed=1)
    before = values(variables)
    with pytest.raises(CheckpointError, match="Cannot read .*extra.json"):
        CheckpointManager(tmp_path).restore(1, variables)
    for name, value in values(variables).items():
        np.testing.assert_array_equal(value, before[name])
