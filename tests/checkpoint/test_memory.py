"""Restoring takes little more memory than the variables themselves."""

import subprocess
import sys

import numpy as np
import tensorflow as tf

from mtf_models.checkpoint import Entry, write

COUNT, SIZES = 12, (2048, 4096)

# Prints the bytes that restoring takes at most, and one restored number. A process of its own:
# what earlier work leaves to the allocator would be taken again, and not be counted.
RESTORE = f"""
import re, sys
from pathlib import Path
import mtf_models.mesh as mtf
from mtf_models.checkpoint import restore

def kilobytes(what):
    return int(re.search(rf"{{what}}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

store = mtf.VariableStore(mtf.Mesh())
with store.collecting():
    for i in range({COUNT}):
        mtf.get_variable(store.mesh, f"layer_{{i}}/kernel", list(zip("ab", {SIZES}, strict=True)))
Path("/proc/self/clear_refs").write_text("5")  # forgets what starting took at most
before = kilobytes("VmRSS")
restore(sys.argv[1], store.variables)
print(1024 * (kilobytes("VmHWM") - before), store.variables["layer_3/kernel"].numpy()[5, 7])
"""


def test_one_variable_is_held_beside_the_model(tmp_path):
    def drawn(seed):
        yield (0, 0), np.random.default_rng(seed).standard_normal(SIZES, np.float32)

    entries = [Entry(f"layer_{i}/kernel", SIZES, tf.float32, drawn(i)) for i in range(COUNT)]
    write(tmp_path / "c", entries)
    done = subprocess.run(
        [sys.executable, "-c", RESTORE, tmp_path / "c"], capture_output=True, text=True, check=True
    )
    taken, found = map(float, done.stdout.split())
    size = 4 * COUNT * np.prod(SIZES)
    assert size * 0.7 < taken < size * 1.3
    assert np.float32(found) == next(drawn(3))[1][5, 7]
