import pytest

from mtf_models.config import parse
from mtf_models.config.overrides import bindings_of
from mtf_models.errors import ConfigError


def test_flags_win_over_everything_else(zoo):
    config = parse(
        ["layouts/model.gin"],
        ["run.mesh_shape = 'model:2'", "run.train_steps = 1"],
        overrides={
            "mesh": "batch:2",
            "layout": "batch:batch",
            "steps": 7,
            "batch_size": 32,
            "save_every": None,
        },
    )
    assert config.query("run.mesh_shape") == "batch:2"
    assert config.query("run.layout_rules") == "batch:batch"
    assert config.query("run.train_steps") == 7
    assert config.query("run.batch_size") == ("sequences_per_batch", 32)


def test_flags_may_have_the_originals_names():
    found = {b.parameter: b.value for b in bindings_of({"train_steps": 3, "model_dir": "a b'c"})}
    assert found == {"train_steps": 3, "model_dir": "a b'c"}


def test_flags_that_set_nothing_are_refused_all_at_once():
    with pytest.raises(ConfigError) as error:
        bindings_of({"stepz": 3, "layot": "x", "mesh": ""})
    assert "--stepz; did you mean steps" in str(error.value)
    assert "--layot; did you mean layout" in str(error.value)
