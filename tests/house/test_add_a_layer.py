"""The page on layers of one's own does what it says."""

import os
import re
import shlex
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # Each starts one or two programs.


@pytest.fixture
def page(repository, tmp_path):
    """Its blocks by language, in order, and the files that it tells a reader to make."""
    text = (repository / "docs" / "add_a_layer.md").read_text("utf-8")
    blocks = {}
    for language, block in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL):
        blocks.setdefault(language, []).append(block)
    (tmp_path / "my_layers.py").write_text(blocks["python"][0])
    (tmp_path / "gated.gin").write_text(blocks["gin"][0])
    return blocks


def run(words, folder):
    """Its output; its last lines if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_layer_is_short_and_passes_its_check(page, tmp_path):
    assert len(page["python"][0].splitlines()) <= 20
    run([sys.executable, "-c", page["python"][1]], tmp_path)


def test_a_wrong_layer_does_not_pass(page, tmp_path):
    wrong = page["python"][0].replace("* self.limit", "* self.limit * x.mesh.size")
    (tmp_path / "my_layers.py").write_text(wrong)
    with pytest.raises(AssertionError, match="result 0 differs"):
        run([sys.executable, "-c", page["python"][1]], tmp_path)


def test_the_commands_know_the_layer(page, tmp_path):
    lines = page["bash"][0].splitlines()
    assert lines[0] == "export PYTHONPATH=."
    words = [shlex.split(line) for line in lines[1:]]
    shown, inspected = (
        run([sys.executable, "-m", "mtf_models.cli.main", *w[1:]], tmp_path) for w in words
    )
    assert "PositionGate.limit = 1.0" in shown
    assert "block_000/layer_001/PositionGate/gate/kernel" in inspected
