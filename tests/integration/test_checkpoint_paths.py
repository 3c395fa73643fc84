"""A checkpoint in the place of a folder, and one that is only a part of the model."""

import tensorflow as tf
from commands import hashes, mtf, train

from mtf_models.checkpoint import Entry, Reader, write

NAME = "decoder/rms_norm/scale"


def infer(path, folder, made, *words):
    given = folder / "given.txt"
    given.write_text("1 2 3\n4 5\n")
    outcome = mtf("infer", f"--model_dir={path}", f"--input={given}", f"--output={made}", *words)
    return outcome, made.read_text() if made.exists() else None


def test_a_checkpoint_is_used_like_its_step(trained, tmp_path):
    folder = trained[0]
    by_step, right = infer(folder, tmp_path, tmp_path / "a.jsonl", "--step=10")
    by_path, found = infer(folder / "model.ckpt-10.index", tmp_path, tmp_path / "b.jsonl")
    assert (by_step.status, by_path.status) == (0, 0)
    assert found == right


def test_a_run_needs_a_folder(trained):
    before = hashes(trained[0])
    outcome = train(trained[0] / "model.ckpt-10", "--steps=30")
    assert outcome.status == 2
    assert "is a checkpoint, and a run needs a folder" in outcome.err
    assert hashes(trained[0]) == before


def test_a_part_of_a_model_is_used_if_that_is_allowed(folder, tmp_path):
    reader = Reader(folder / "model.ckpt-20")
    values = {name: reader.read(name) for name in reader.names if name != NAME}
    entries = [
        Entry(name, x.shape, tf.as_dtype(x.dtype), [((0,) * x.ndim, x)])
        for name, x in values.items()
    ]
    write(reader.prefix, entries)
    outcome, found = infer(folder, tmp_path, tmp_path / "a.jsonl")
    assert (outcome.status, found) == (2, None)
    assert f"missing in the checkpoint (1): {NAME} [32]" in outcome.err
    outcome, found = infer(folder, tmp_path, tmp_path / "a.jsonl", "--allow_partial")
    assert outcome.status == 0
    assert f"1 variables stay as they are, at their initial values if new: {NAME}." in outcome.err
    assert len(found.splitlines()) == 2
