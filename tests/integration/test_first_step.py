"""How much longer the first step takes, which compiles, on more devices."""

import time
from pathlib import Path

import numpy as np
import pytest

import mtf_models as mtf

CONFIG = Path(__file__).parents[1] / "transformer" / "t5_tiny.gin"
LAYOUT = "batch:batch,heads:model,d_ff:model,vocab:model"
MESHES = {1: "", 2: "batch:2", 4: "batch:2;model:2", 8: "batch:2;model:4"}


def first_step(mesh):
    """Seconds of a CPU, whatever else the machine does."""
    model = mtf.build_model([str(CONFIG)], [], mtf.Mesh(mesh, layout=LAYOUT))
    trainer = mtf.Trainer(model, learning_rate=0.01)
    features = {"inputs": np.full([8, 12], 3), "targets": np.full([8, 10], 3)}
    start = time.process_time()
    trainer.step(features)
    return time.process_time() - start


@pytest.mark.nightly
def test_the_first_step_takes_less_than_eight_times_as_long_on_eight_devices():
    first_step("")  # What a process does once is left out.
    seconds = {devices: first_step(mesh) for devices, mesh in MESHES.items()}
    print("first step, seconds by devices:", {n: round(s, 2) for n, s in seconds.items()})
    assert seconds[8] < 8 * seconds[1]
