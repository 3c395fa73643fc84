"""What every test stands on: eight virtual CPU devices and the original's recorded numbers."""

import contextlib
import os
import resource
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # As the package does where it is first.

import pytest
import tensorflow as tf

VIRTUAL_CPUS = 8

# Their number is fixed at TensorFlow's first touch of a device, hence here and not in a fixture.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * VIRTUAL_CPUS,
)
tf.config.set_visible_devices([], "GPU")  # A mesh would take them before the CPUs.


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What is run at night is slow."""
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """The folder of what was recorded by running the original package."""
    return Path(__file__).parent / "fixtures"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def files_of_at_most():
    """A context in which, as on a full disk, no file can grow beyond a size."""

    @contextlib.contextmanager
    def limit(size):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit
