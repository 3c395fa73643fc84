"""Restoring takes little more memory than the variables themselves."""

import ctypes
import gc
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.checkpoint import Entry, bundle, restore, write

COUNT, SIZES = 12, (1024, 2048)


def kilobytes(what):
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+) kB", status)[1])


@pytest.fixture
def forget_peak():
    """Makes the peak memory of this process that of now, which is what it uses."""

    def forget():
        gc.collect()
        try:
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
        except (AttributeError, OSError):
            pytest.skip("this system does not tell the peak memory of a part of a process")

    return forget


def test_one_variable_is_held_beside_the_model(tmp_path, forget_peak, monkeypatch):
    def drawn(seed):
        yield (0, 0), np.random.default_rng(seed).standard_normal(SIZES, np.float32)

    # What writing leaves to the allocator must not be what restoring takes.
    monkeypatch.setattr(bundle, "_SHARD_BYTES", 1)
    names = [f"layer_{i}/kernel" for i in range(COUNT)]
    write(tmp_path / "c", [Entry(n, SIZES, tf.float32, drawn(i)) for i, n in enumerate(names)])
    store = mtf.VariableStore(mtf.Mesh())
    with store.collecting():
        for name in names:
            mtf.get_variable(store.mesh, name, list(zip("ab", SIZES, strict=True)))
    size = 4 * COUNT * np.prod(SIZES) / 1024

    forget_peak()
    before = kilobytes("VmRSS")
    restore(tmp_path / "c", store.variables)
    taken = kilobytes("VmHWM") - before
    assert size * 0.5 < taken < size * 1.3
    np.testing.assert_array_equal(store.variables[names[3]].numpy(), next(drawn(3))[1])
