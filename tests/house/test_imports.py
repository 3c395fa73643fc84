import os
import subprocess
import sys

import pytest

from mtf_models.cli.main import COMMANDS

HEAVY = ("tensorflow", "tensorflow_datasets", "seqio", "t5", "jax", "transformers", "gin")
HELP = [["--help"], *([command, "--help"] for command in COMMANDS)]
CALL_MAIN = """
import sys
from mtf_models.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0
"""
SECONDS = 0.5


def run(program, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def loaded_by(program, *arguments, **environment):
    tell = f"\nimport sys; print('loaded:', *[m for m in {HEAVY} if m in sys.modules])"
    return run(program + tell, *arguments, **environment).stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    "program",
    [
        "import mtf_models",
        "from mtf_models import cli, errors, installation, machine, runtime",
        "import mtf_models.runtime.options",
        *(f"import mtf_models.cli.{command}" for command in COMMANDS),
    ],
)
def test_imports_stay_light(program, tmp_path):
    assert loaded_by(program, HOME=str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_needs_no_library(arguments):
    assert loaded_by(CALL_MAIN, *arguments) == []


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_comes_at_once(arguments):
    def seconds():
        """Of the processor, so that other work on the machine does not count."""
        before = os.times()
        run(CALL_MAIN, *arguments)
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])

    assert any(seconds() < SECONDS for _ in range(3))
