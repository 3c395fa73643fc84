"""Every example trains and decodes: a few steps, and smaller than it is."""

import json

import pytest
from commands import mtf, training_rows

from mtf_models import gin_files

RUNNERS = ("dataset", "switch_vs_dense")  # What others include, and what `mtf compare` runs.
NAMES = sorted(path.stem for path in (gin_files.folder() / "examples").glob("*.gin"))
SMALL = ("--gin_param=d_model = 32", "--gin_param=d_ff = 64", "--batch_size=4", "--steps=2")


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in NAMES if name not in RUNNERS])
def test_an_example_trains_and_decodes(name, tmp_path):
    run, words, out = tmp_path / "run", tmp_path / "words.txt", tmp_path / "out.jsonl"
    evaluated = "--gin_param=mesh_eval_dataset_fn.num_eval_examples = 4"
    given = (f"--gin_file=examples/{name}.gin", f"--model_dir={run}", *SMALL, evaluated)
    outcome = mtf("train", *given)
    assert outcome.status == 0, outcome.err
    assert [row["step"] for row in training_rows(run)] == [1, 2]
    words.write_text("In the beginning\nand behold\n")
    outcome = mtf(
        "infer",
        f"--model_dir={run}",
        f"--input={words}",
        f"--output={out}",
        "--max_decode_length=4",
    )
    assert outcome.status == 0, outcome.err
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["input"] for row in rows] == ["In the beginning", "and behold"]
    assert all(isinstance(row["prediction"], str) for row in rows)
