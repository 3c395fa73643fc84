import itertools
import shutil
from pathlib import Path

import pytest

from mtf_models.errors import CheckpointError, ConfigError
from mtf_models.runtime.folder.checkpoint_steps import steps_of

FOLDER = Path(__file__).parents[2] / "fixtures" / "t5_1_1_tiny"


@pytest.mark.parametrize(
    ("wanted", "steps"),
    [("all", [0, 3]), (-1, [3]), (None, [3]), (0, [0]), ([3, 0], [3, 0]), ((0, -1), [0, 3])],
)
def test_steps(wanted, steps):
    assert list(steps_of(FOLDER, wanted)) == steps


@pytest.mark.parametrize("wanted", [7, [0, 7, 8]])
def test_steps_that_are_not_there_are_all_named(wanted):
    missing = "7, 8" if isinstance(wanted, list) else "7"
    with pytest.raises(CheckpointError, match=f"of step {missing}; there are steps 0, 3"):
        steps_of(FOLDER, wanted)


@pytest.mark.parametrize("wanted", ["al", 1.5, ["a"], [True]])
def test_what_is_no_step(wanted):
    with pytest.raises(ConfigError, match="run.eval_checkpoint_step is"):
        steps_of(FOLDER, wanted)


def test_no_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match="has no checkpoint; there is none"):
        steps_of(tmp_path, "all")


def test_checkpoints_are_used_as_they_come(tmp_path):
    """The second one comes while it is waited for."""
    waited = []

    def wait(seconds):
        waited.append(seconds)
        number = 0 if len(waited) == 1 else 3
        for file in FOLDER.glob(f"model.ckpt-{number}.*"):
            shutil.copy(file, tmp_path)

    coming = steps_of(tmp_path, None, watches=True, wait=wait)
    assert list(itertools.islice(coming, 2)) == [0, 3]
    assert len(waited) == 2


def test_a_checkpoint_that_is_removed_meanwhile_is_passed_over(tmp_path):
    for number in (0, 1, 3):
        for file in FOLDER.glob("model.ckpt-3.*"):
            shutil.copy(file, tmp_path / file.name.replace("-3.", f"-{number}.", 1))
    coming = steps_of(tmp_path, None, watches=True)
    assert next(coming) == 0
    for file in tmp_path.glob("model.ckpt-1.*"):
        file.unlink()
    assert next(coming) == 3
