"""A trained run folder, of a task of 37 numbered examples."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "numbered"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder of a finished run of 20 steps, and what the run printed; not to be changed."""
    from commands import train

    folder = tmp_path_factory.mktemp("trained") / "run"
    return folder, train(folder)


@pytest.fixture
def folder(trained, tmp_path):
    """A copy of the trained folder."""
    return shutil.copytree(trained[0], tmp_path / "run")
