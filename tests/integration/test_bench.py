"""`mtf bench data` and `startup` on the numbered examples."""

import json

import pytest
from commands import GIVEN, HERE, mtf

from mtf_models.errors import MtfError
from mtf_models.runtime.benchmarks import reading, starting


def test_data(monkeypatch, tmp_path):
    monkeypatch.setattr(reading, "_BATCHES", 2)
    file = tmp_path / "data.json"
    outcome = mtf("bench", "data", *GIVEN, "--steps=1", f"--json={file}")
    assert outcome.status == 0, outcome.err
    [row] = json.loads(file.read_text("utf-8"))["runs"]
    assert row["rows"] == 4
    # Each example has 8 tokens at the most on each side.
    assert 0 < row["tokens_per_second"] <= 16 * row["examples_per_second"]
    ratio = row["tokens_per_second"] / row["trained_tokens_per_second"]
    assert row["times_model"] == pytest.approx(ratio, rel=0.05, abs=0.06)
    assert "numbered.gin" in outcome.out


def test_startup(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    file = tmp_path / "startup.json"
    outcome = mtf("bench", "startup", *GIVEN, "--steps=1", f"--json={file}")
    assert outcome.status == 0, outcome.err
    python, imported, helped, stepped = json.loads(file.read_text("utf-8"))["runs"]
    assert python["what"] == "python" and stepped["what"].startswith("first step, ")
    assert all(run["seconds"] > 0 for run in (python, imported, helped, stepped))
    assert "import mtf_models" in outcome.out


def test_startup_says_why_a_process_fails():
    with pytest.raises(MtfError, match="is measured when it works: .*no_such_module"):
        starting.until_end(["-c", "import no_such_module"])


def test_startup_ends_a_process_that_waits(monkeypatch):
    monkeypatch.setattr(starting, "_MINUTES", 0.005)
    with pytest.raises(MtfError, match="it was ended after 0.005 minutes"):
        starting.until_end(["-c", "import time; time.sleep(600)"])


def test_startup_times_a_process_that_says_much(monkeypatch):
    steps = """if True:
        import pathlib, sys, time
        sys.stderr.write("a line\\n" * 100_000)
        folder = pathlib.Path(sys.argv[-1].removeprefix("--model_dir="))
        folder.mkdir()
        (folder / "metrics.jsonl").write_text("{}")
        time.sleep(600)
    """
    monkeypatch.setattr(starting, "_MTF", steps)
    monkeypatch.setattr(starting, "_MINUTES", 1)
    assert 0 < starting.until_first_step([]) < 60


@pytest.mark.parametrize(
    ("name", "given", "takes"),
    [
        ("startup", "--batch_size=3", "--gin_file, --gin_param, --module_import, --steps and "),
        ("data", "--no_peers", "--pad_vocab, --batch_size, --seed, --steps and --json"),
    ],
)
def test_options_that_do_nothing_are_refused(name, given, takes):
    outcome = mtf("bench", name, given)
    assert outcome.status != 0
    assert takes in outcome.err and f"leave out {given.partition('=')[0]}." in outcome.err


def test_data_of_an_objective_that_gin_binds():
    outcome = mtf("bench", "data", "--gin_file=examples/span_corruption_tiny.gin", "--steps=1")
    assert outcome.status == 0, outcome.err
    assert "examples/span_corruption_tiny.gin" in outcome.out
