"""A folder whose run was on a mesh of 128 x 2 devices is used where there are fewer."""

import numpy as np
import pytest
from commands import MTF, finish, mtf, start

import mtf_models.mesh as language
from mtf_models.mesh import devices
from mtf_models.runtime.folder.load import load_model

LAYOUT = "batch:x,heads:y,d_ff:y,vocab:y"
FEATURES = {
    "inputs": np.array([[13, 14, 1, 0], [15, 1, 0, 0]]),
    "targets": np.array([[16, 1, 0, 0], [17, 18, 1, 0]]),
}


@pytest.fixture
def of_256(folder):
    """A trained folder that says it was trained on 256 devices."""
    file = folder / "operative_config.gin"
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith("run.layout_rules"):
            lines[number] = f"run.layout_rules = {LAYOUT!r}"
        elif line.startswith("run.mesh_shape"):
            lines[number] = "run.mesh_shape = 'x:128,y:2'"
    file.write_text("\n".join(lines))
    return folder


@pytest.fixture
def with_devices(monkeypatch):
    """Lets this process have fewer devices than it has."""

    def limit(count):
        monkeypatch.setattr(devices, "available", lambda: count)
        monkeypatch.setenv("MTF_VIRTUAL_CPUS", str(count))

    return limit


@pytest.mark.parametrize(("count", "used", "mesh"), [(1, "1", "x:1,y:1"), (4, "2×2", "x:2,y:2")])
def test_the_mesh_is_shrunk(of_256, with_devices, count, used, mesh):
    with_devices(count)
    said = f"recorded mesh 128×2 → using {used}\n"

    outcome = mtf("train", f"--model_dir={of_256}", "--resume", "--steps=21", "--strict_mesh")
    assert outcome.status == 2
    assert outcome.err == (
        f"mtf: error: The recorded mesh 128×2 has 256 devices; the one to use here, {used}, has "
        f"{count}. Drop --strict_mesh to go on with it.\n"
    )

    outcome = mtf("eval", f"--model_dir={of_256}", "--num_examples=2")
    assert outcome.status == 0
    assert said in outcome.err

    outcome = mtf("train", f"--model_dir={of_256}", "--resume", "--steps=21")
    assert outcome.status == 0
    assert said in outcome.err
    assert f"mesh       {mesh}   layout {LAYOUT}" in outcome.out
    assert "run.mesh_shape = 'x:128,y:2'" in (of_256 / "operative_config.gin").read_text()


def test_virtual_devices_are_no_more_devices(of_256):
    """Nobody asked for the eight that are always there: a mesh over them is slower than one."""
    outcome = mtf("eval", f"--model_dir={of_256}", "--num_examples=2")
    assert "recorded mesh 128×2 → using 1\n" in outcome.err


def test_logits_do_not_depend_on_the_mesh(of_256):
    logits = [
        load_model(of_256, mesh=mesh)(FEATURES).logits.numpy()
        for mesh in (None, language.Mesh("x:2,y:2", LAYOUT))
    ]
    np.testing.assert_allclose(*logits, rtol=1e-5, atol=1e-5)


def test_another_mesh_is_told(of_256):
    outcome = mtf("eval", f"--model_dir={of_256}", "--mesh=x:1;y:1", "--num_examples=1")
    assert outcome.status == 0
    assert "recorded mesh 128×2 → using 1\n" in outcome.err


def test_devices_of_another_machine_are_not_asked_for(folder):
    config = folder / "operative_config.gin"
    config.write_text(config.read_text() + "\nrun.mesh_devices = ['GPU:0']\n")
    outcome = mtf("eval", f"--model_dir={folder}", "--num_examples=1")
    assert outcome.status == 0, outcome.err


@pytest.mark.nightly
@pytest.mark.parametrize(("count", "used"), [(1, "1"), (4, "2×2")])
def test_in_a_process_of_so_many_devices(of_256, count, used):
    words = ("eval", f"--model_dir={of_256}", "--num_examples=2")
    outcome = finish(start(*words, program=MTF, MTF_VIRTUAL_CPUS=str(count)))
    assert outcome.status == 0
    assert f"recorded mesh 128×2 → using {used}\n" in outcome.err
