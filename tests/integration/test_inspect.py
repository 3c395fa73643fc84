"""`mtf inspect` on folders, checkpoints and configs."""

import re

import pytest
from commands import mtf

from mtf_models.mesh import devices

LAYOUT = "batch:batch,heads:model,d_ff:model,vocab:model"


def test_a_run_folder(trained):
    outcome = mtf("inspect", trained[0])
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0] == f"checkpoint {trained[0]}/model.ckpt-20, step 20"
    assert lines[1] == "steps      5, 10, 15, 20"
    assert lines[2] == "parameters 49,632 in 29 variables, 198,528 bytes"
    assert f"{384 * 32:>16,}  shared/embedding [384, 32] float32" in lines[3:32]
    assert lines[32] == "slots      49,632 in 29 variables, 198,528 bytes"
    assert f"{384 * 32:>16,}  shared/embedding_slot_v [384, 32] float32" in lines[33:]
    assert len(lines) == 3 + 29 + 1 + 29


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001"])
def test_a_checkpoint(trained, ending):
    outcome = mtf("inspect", f"{trained[0]}/model.ckpt-10{ending}")
    assert outcome.out.splitlines()[0] == f"checkpoint {trained[0]}/model.ckpt-10, step 10"


def test_one_of_several_checkpoints(trained):
    assert "model.ckpt-10, step 10" in mtf("inspect", trained[0], "--step=10").out
    outcome = mtf("inspect", trained[0], "--step=11")
    assert outcome.status == 2
    assert "no checkpoint of step 11; there are steps 5, 10, 15, 20" in outcome.err
    outcome = mtf("inspect", f"{trained[0]}/model.ckpt-10", "--step=20")
    assert outcome.status == 2
    assert "is one checkpoint, and step 20 is asked for" in outcome.err


def test_a_config_has_no_steps():
    outcome = mtf("inspect", "--gin_file=examples/g2p_tiny.gin", "--step=3")
    assert outcome.status == 2
    assert "--step is of a folder with checkpoints" in outcome.err


def test_a_file_of_pickled_objects(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    for path in (tmp_path, tmp_path / "pytorch_model.bin"):
        outcome = mtf("inspect", path)
        assert outcome.status == 2
        assert "pytorch_model.bin" in outcome.err
        assert "never read" in outcome.err


def test_a_folder_of_the_original(fixtures_dir):
    """The number of parameters by hand: two tables, 2 + 2 layers, two biases, eleven norms."""
    attention, feed_forward = 4 * 32 * 4 * 12, 3 * 32 * 48
    expected = 2 * 128 * 32 + 6 * attention + 4 * feed_forward + 2 * 4 * 32 + 12 * 32
    outcome = mtf("inspect", fixtures_dir / "t5_1_1_tiny")
    assert outcome.status == 0
    assert re.search(rf"^parameters {expected:,} in 52 variables", outcome.out, re.MULTILINE)
    assert re.search(r"^slots      ", outcome.out, re.MULTILINE)
    assert "model.ckpt-3, step 3" in outcome.out


def test_a_config(monkeypatch):
    """The published count of T5 11B, on 128 devices, none of which is looked for."""

    def refuse(*_):
        raise AssertionError("a device was looked for")

    monkeypatch.setattr(devices, "choose", refuse)
    words = ("--gin_file=models/t5.1.0.11B.gin", "--mesh=batch:8;model:16", f"--layout={LAYOUT}")
    outcome = mtf("inspect", *words)
    assert outcome.status == 0
    assert "mesh       batch:8,model:16\n" in outcome.out
    assert f"parameters {11_307_321_344:,}\n" in outcome.out
    table = 32128 * 1024 * 4 // 16
    assert (
        f"{table:,}  shared/embedding [vocab=32128, d_model=1024]  split over model" in outcome.out
    )
    assert re.search(r"1,024  .*relative_attention_bias \[heads=128, buckets=32\]", outcome.out)
    per_device = int(re.search(r"([\d,]+)  all", outcome.out)[1].replace(",", ""))
    norms = 4 * 1024 * (24 * 2 + 24 * 3 + 2)  # alone are whole on every device
    assert per_device == (4 * 11_307_321_344 - norms) // 16 + norms


def test_a_config_that_does_not_fit():
    words = ("--mesh=model:7", f"--layout={LAYOUT}")
    outcome = mtf("inspect", "--gin_file=models/t5.1.0.small.gin", *words)
    assert outcome.status == 2
    assert "does not divide over the 7 parts" in outcome.err


def test_flags_change_the_config():
    words = ("--gin_file=models/t5.1.0.small.gin", "--gin_param=d_model = 64")
    padded = ("--gin_param=Unitransformer.vocab_divisor = 1", "--mesh=model:16", "--pad_vocab")
    outcome = mtf("inspect", *words, *padded, "--layout=vocab:model")
    assert "shared/embedding [vocab=32112, d_model=64]  split over model" in outcome.out
    outcome = mtf("inspect", *words, "--mesh=batch:2", "--strict")
    assert outcome.status == 2
    assert "drop --strict" in outcome.err


def test_one_thing_at_a_time(trained, tmp_path):
    for words in (
        (),
        (trained[0], "--gin_file=models/t5.1.0.small.gin"),
        (trained[0], "--mesh=x:2"),
    ):
        outcome = mtf("inspect", *words)
        assert outcome.status == 2
        assert "--gin_file" in outcome.err
    outcome = mtf("inspect", tmp_path / "nothing")
    assert outcome.status == 2
    assert f"There is no checkpoint {tmp_path / 'nothing'}" in outcome.err
    assert mtf("inspect", tmp_path).status == 2
