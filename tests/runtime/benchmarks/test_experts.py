"""The benchmark of experts measures three computations, two of which give the same."""

import json

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ConfigError, DataError
from mtf_models.runtime.benchmarks import bench, experts
from mtf_models.runtime.options import BenchOptions


@pytest.fixture
def small(monkeypatch):
    for name, size in {"_BATCH": 2, "_LENGTH": 16, "_D_MODEL": 8, "_HIDDEN": 16}.items():
        monkeypatch.setattr(experts, name, size)


def test_the_layer_and_the_one_hot_products_give_the_same(small):
    case = experts._Case(4, tf.float32)
    x = mtf.Tensor(case.mesh, case.tokens, case._drawn(case.tokens))
    table = {n: case._drawn(s) for n, s in case._shapes.items()}
    with case.store.serving(table):
        pairs = zip(case.layer(x), case.one_hot(x), strict=True)
        for found, right in pairs:
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


def test_what_is_timed_computes_all_products(small):
    case = experts._Case(4, tf.float32)
    wi, wo = (case._drawn(case._shapes[f"{n}/kernel"]).numpy() for n in ("wi", "wo"))
    hidden = np.maximum(case._drawn(case.slots).numpy() @ (wi * 8**-0.5), 0)
    right = (hidden @ (wo * 16**-0.5)).sum()
    np.testing.assert_allclose(case.compiled(case.bare)(), right, rtol=1e-4)


def test_figures_are_written(small, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(experts, "_EXPERTS", (2,))
    file = tmp_path / "moe.json"
    bench.run(BenchOptions(benchmark="moe", steps=2, json=str(file)))
    found = json.loads(file.read_text("utf-8"))
    assert [run["dtype"] for run in found["runs"]] == ["bfloat16", "float32"]
    for run in found["runs"]:
        assert run["capacity"] == 20 and run["bare_ms"] > 0 and run["layer_ratio"] > 0
    assert "2 experts" in capsys.readouterr().out


def test_figures_are_not_written_over(tmp_path):
    file = tmp_path / "moe.json"
    file.write_text("mine")
    with pytest.raises(DataError, match="--json=.* is there already"):
        bench.run(BenchOptions(benchmark="moe", steps=2, json=str(file)))
    assert file.read_text() == "mine"


def test_options_that_do_nothing_are_refused():
    options = BenchOptions(benchmark="moe", batch_size=4, gin_file=("models/t5.1.1.small.gin",))
    with pytest.raises(ConfigError, match="leave out --gin_file, --batch_size"):
        bench.run(options)
