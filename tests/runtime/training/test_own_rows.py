"""Which rows of a batch a process reads, on meshes over two and three processes."""

from types import SimpleNamespace

import numpy as np
import pytest

from mtf_models import processes
from mtf_models.mesh import Mesh
from mtf_models.runtime.training.own_rows import OwnRows

ROWS = 12

# By hand: devices are numbered along the mesh, the last axis fastest, and a process has as many
# neighbours of them as each other one.
CASES = {
    "batch first": ("batch:2;model:2", 2, [(0, 2), (1, 2)]),
    "batch last": ("model:2;batch:2", 2, [(0, 1), (0, 1)]),
    "batch inside": ("model:2;batch:4", 4, [(0, 2), (1, 2), (0, 2), (1, 2)]),
    "model alone": ("model:4", 2, [(0, 1), (0, 1)]),
    "parts that overlap": ("batch:3;model:2", 2, [(0, 1), (0, 1)]),
    "one process": ("batch:4", 1, [(0, 1)]),
}


@pytest.mark.parametrize("case", CASES)
def test_parts_of_processes(monkeypatch, case):
    shape, count, expected = CASES[case]
    batch = {"targets": np.arange(1, 2 * ROWS + 1).reshape(ROWS, 2)}
    for index, part in enumerate(expected):
        group = SimpleNamespace(index=index, count=count)
        monkeypatch.setattr(processes, "current", lambda group=group: group)
        rows = OwnRows(Mesh(shape, layout="batch:batch"), ROWS)
        assert rows.process == part
        number, parts = part
        own = slice(number * ROWS // parts, (number + 1) * ROWS // parts)
        whole = rows.in_whole({n: x[own] for n, x in batch.items()})["targets"]
        np.testing.assert_array_equal(whole[own], batch["targets"][own])
        assert np.count_nonzero(whole) == batch["targets"][own].size
