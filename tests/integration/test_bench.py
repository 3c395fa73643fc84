"""`mtf bench data`, `layouts`, `growth` and `startup` on small things."""

import functools
import json

import pytest
from commands import GIVEN, HERE, mtf

from mtf_models.errors import MtfError
from mtf_models.runtime.benchmarks import growth, layouts, reading, starting, sweeps


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


@pytest.mark.slow
def test_layouts(monkeypatch, tmp_path):
    monkeypatch.setattr(layouts, "_MESHES", ("", "model:2"))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    file = tmp_path / "layouts.json"
    outcome = mtf("bench", "layouts", *GIVEN, "--steps=1", f"--json={file}")
    assert outcome.status == 0, outcome.err
    alone, split = json.loads(file.read_text("utf-8"))["runs"]
    assert (alone["value"], alone["times_one_device"]) == ("none", 1.0)
    assert split["value"] == "model:2" and split["first_step_s"] > 0
    times = split["step_ms"] / alone["step_ms"]
    assert split["times_one_device"] == pytest.approx(times, abs=0.006)
    assert "model:2" in outcome.out


def test_layouts_say_which_mesh_fails(monkeypatch):
    monkeypatch.setattr(layouts, "_MESHES", ("batch:3",))
    monkeypatch.setattr(sweeps, "MTF", "import sys; sys.exit('said before\\nthe reason')")
    outcome = mtf("bench", "layouts", *GIVEN, "--steps=1")
    assert outcome.status != 0
    assert "mesh batch:3: mtf bench train" in outcome.err and "--mesh=batch:3" in outcome.err
    assert "ended with 1: the reason" in outcome.err and "said before" not in outcome.err


def test_growth(monkeypatch, tmp_path):
    def measured(cases, options, steps):
        """5 ms and the square of the size in microseconds; memory in proportion."""
        return [
            {
                "varied": case.varied,
                "value": case.value,
                "step_ms": 5 + case.value**2 / 1e3,
                "step_ms_min": 1.0,
                "step_ms_max": 2.0,
                "peak_memory_mb": 8 * case.value,
            }
            for case in cases
        ]

    monkeypatch.setattr(growth, "measured", measured)
    file = tmp_path / "growth.json"
    outcome = mtf("bench", "growth", f"--json={file}")
    assert outcome.status == 0, outcome.err
    rows = json.loads(file.read_text("utf-8"))["runs"]
    lengths = [row for row in rows if row["varied"] == "length"]
    assert [row["value"] for row in lengths] == [128, 256, 512, 1024, 2048, 4096]
    assert "step_ms_exponent" not in lengths[0]
    assert all(row["peak_memory_mb_exponent"] == 1.0 for row in lengths[1:])
    # log2((5 + 65.536) / (5 + 16.384)) and log2((5 + 16777.216) / (5 + 4194.304)).
    assert lengths[1]["step_ms_exponent"] == 1.72 and lengths[-1]["step_ms_exponent"] == 2.0
    # From 2 to 16 layers 5.004 ms become 5.256, from 2 to 64 experts 9.096.
    assert "length: beyond 128, vocabulary: beyond 32,128, layers: never, experts: " in outcome.out


def once(measure):
    """Measures each process in the first round, and tells the same seconds in the next."""
    kept = functools.cache(lambda *words: measure(list(words)))
    return lambda words: kept(*words)


@pytest.mark.slow
def test_startup(monkeypatch, tmp_path):
    monkeypatch.setattr(starting, "until_end", once(starting.until_end))
    monkeypatch.setattr(starting, "until_first_step", once(starting.until_first_step))
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
    monkeypatch.setattr(starting, "MTF", steps)
    monkeypatch.setattr(starting, "_MINUTES", 1)
    assert 0 < starting.until_first_step([]) < 60


@pytest.mark.parametrize(
    ("name", "given", "takes"),
    [
        ("startup", "--batch_size=3", "--gin_file, --gin_param, --module_import, --steps and "),
        ("growth", "--batch_size=3", "takes --gin_param, --steps and --json"),
        ("layouts", "--mesh=batch:2", "--layout, --batch_size, --seed, --pad_vocab, --steps and "),
        ("data", "--no_peers", "--pad_vocab, --batch_size, --seed, --steps and --json"),
    ],
)
def test_options_that_do_nothing_are_refused(name, given, takes):
    outcome = mtf("bench", name, given)
    assert outcome.status != 0
    assert takes in outcome.err and f"leave out {given.partition('=')[0]}." in outcome.err


@pytest.mark.slow
def test_data_of_an_objective_that_gin_binds(monkeypatch):
    monkeypatch.setattr(reading, "_BATCHES", 2)
    given = ("--gin_file=examples/span_corruption_tiny.gin", "--gin_param=num_layers = 1")
    outcome = mtf("bench", "data", *given, "--steps=1")
    assert outcome.status == 0, outcome.err
    assert "examples/span_corruption_tiny.gin" in outcome.out
