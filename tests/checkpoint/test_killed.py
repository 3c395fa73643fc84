import signal
import subprocess
import sys

import pytest

from mtf_models.checkpoint import CheckpointManager
from mtf_models.checkpoint.publish import remove_dead

# Saves step 5, then stops for ever in the midst of saving step 10, and says so.
RUN = """
import sys, time
import numpy as np, tensorflow as tf
import mtf_models.mesh as mtf
from mtf_models.checkpoint import CheckpointManager, publish
from mtf_models.mesh.engines.single import SingleEngine

folder, place = sys.argv[1:]
store = mtf.VariableStore(mtf.Mesh())
with store.eager():
    for name in "ab":
        mtf.get_variable(store.mesh, name, "x:4")
manager = CheckpointManager(folder)
manager.save(5, store.variables)

def stop():
    print("stopped", flush=True)
    time.sleep(600)

slices, move = SingleEngine.slices, publish.os.replace
calls = iter("ab")
if place == "data":
    SingleEngine.slices = lambda *a: stop() if next(calls) == "b" else slices(*a)
else:
    publish.os.replace = lambda s, t: stop() if str(t).endswith(".index") else move(s, t)
manager.save(10, store.variables)
"""


@pytest.mark.parametrize("place", ["data", "index"])
def test_killed_while_saving(tmp_path, hashes, make_variables, caplog, place):
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path), place], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "stopped\n"
    older = {k: v for k, v in hashes(tmp_path).items() if "ckpt-5" in k or k == "checkpoint"}
    assert len(older) == 4
    remove_dead(tmp_path)
    assert len(_folders(tmp_path)) == 1  # its process lives
    process.send_signal(signal.SIGKILL)
    process.communicate()

    manager = CheckpointManager(tmp_path)
    variables = make_variables(shapes={"a": "x:4", "b": "x:4"})
    assert manager.latest() == 5
    assert ("Ignored torn checkpoint" in caplog.text) == (place == "index")
    manager.restore(5, variables)
    assert {k: v for k, v in hashes(tmp_path).items() if k in older} == older
    manager.save(10, variables)
    assert manager.latest() == 10
    assert not _folders(tmp_path)


def _folders(path):
    return [f for f in path.iterdir() if f.is_dir()]
