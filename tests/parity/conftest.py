"""What the original computed, one folder of fixtures for each model."""

from pathlib import Path

import numpy as np
import pytest

import mtf_models as mtf

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = sorted(file.parent.name for file in FIXTURES.glob("*/io.npz"))
# Of the others the default suite compiles the losses, the gradients and a decode.
IN_FULL = ("lm_tiny", "t5_1_0_tiny", "t5_1_1_tiny")
SLOW = ("test_training.py", "test_packed_rows", "test_norms_of_gradients_of_packed_rows")


class Recorded:
    """The arrays of one folder; the original's outputs have a leading dimension of 1."""

    def __init__(self, name):
        self.folder = FIXTURES / name
        self._arrays = np.load(self.folder / "io.npz")
        self.is_lm = "plain/inputs" not in self._arrays.files

    def __getitem__(self, key):
        return self._arrays[key]

    def group(self, prefix):
        """What is recorded below a prefix, by the rest of its name."""
        names = [name for name in self._arrays.files if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._arrays[name] for name in names}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leaves what takes longest to compile to the slow tests, for all but three folders."""
    for item in items:
        name = item.callspec.params.get("recorded") if hasattr(item, "callspec") else None
        if name in CASES and name not in IN_FULL and any(s in item.nodeid for s in SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", params=CASES)
def recorded(request):
    """What the original computed with one model."""
    return Recorded(request.param)


@pytest.fixture(scope="session")
def load(recorded):
    """Loads the checkpoint that everything was computed from."""
    return lambda: mtf.load_model(recorded.folder, step=0)


@pytest.fixture(scope="session")
def model(load):
    """The model with the weights of that checkpoint; not to be trained."""
    return load()


@pytest.fixture(scope="session")
def relative():
    """The largest difference, relative to the largest expected value."""

    def difference(found, right):
        return float(np.max(np.abs(np.asarray(found) - right)) / np.max(np.abs(right)))

    return difference
