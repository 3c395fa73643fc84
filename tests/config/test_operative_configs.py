"""Operative configs that the original wrote, unmodified, are read and written without loss.

tests/parity builds from them what the original built.
"""

from pathlib import Path

import pytest

from mtf_models.config import parse, parse_text

FOLDER = Path(__file__).parent / "data" / "operative"
NAMES = sorted(path.stem for path in FOLDER.glob("*.gin"))


@pytest.fixture(autouse=True)
def registered(zoo):
    return zoo


def test_they_are_those_of_all_recorded_models(fixtures_dir):
    recorded = {path.parent.name: path for path in fixtures_dir.glob("*/operative_config.gin")}
    assert NAMES == sorted([*recorded, "cli_run_tiny"])
    for name, path in recorded.items():
        assert (FOLDER / f"{name}.gin").read_bytes() == path.read_bytes(), name


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cli_run_tiny"])
def test_a_config_is_read_and_written_without_loss(name):
    config = parse([str(FOLDER / f"{name}.gin")])
    assert parse_text(config.text()).differences(config) == []


def test_the_config_of_a_run():
    config = parse([str(FOLDER / "cli_run_tiny.gin")])
    assert config.query("run.model_type") == "bitransformer"
    assert config.query("run.mesh_shape") == "batch:1,model:1"
    assert config.query("run.train_steps") == 3
    assert config.query("run.sequence_length") == {"inputs": 12, "targets": 10}
