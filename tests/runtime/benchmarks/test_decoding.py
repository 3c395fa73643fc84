"""The benchmark of decoding counts the weights it reads and measures beside transformers."""

import json

import pytest

import mtf_models as mtf
from mtf_models.runtime.benchmarks import bench, decoding
from mtf_models.runtime.options import BenchOptions

TINY = (
    "utils.run.sequence_length = {'inputs': 6, 'targets': 6}",
    "num_layers = 2",
    "d_model = 16",
    "d_ff = 32",
    "num_heads = 2",
    "d_kv = 4",
)


@pytest.fixture
def few_ids(monkeypatch):
    monkeypatch.setattr(decoding, "_NEW_TOKENS", 3)
    monkeypatch.setattr(decoding, "_MEGABYTES_READ", 1)


def test_a_step_reads_the_decoder_but_what_is_computed_once():
    wide = "utils.get_variable_dtype.activation_dtype = 'float32'"
    model = mtf.build_model(["models/t5.1.1.small.gin"], [*TINY, wide])
    layer = 4 * 16 * 8 + 2 * 16 * 8 + 3 * 16 * 32  # Self-attention, q and o of the other, the gate.
    norms, bias, logits = 7 * 16, 2 * 32, 16 * 32128
    assert decoding.weight_bytes(model) == 4 * (2 * layer + norms + bias + logits)


@pytest.mark.usefixtures("few_ids")
def test_figures_are_written(tmp_path, capsys):
    file = tmp_path / "decode.json"
    options = BenchOptions(
        benchmark="decode", gin_param=TINY, batch_size=2, steps=2, peers=False, json=str(file)
    )
    bench.run(options)
    found = json.loads(file.read_text("utf-8"))
    cases = [(run["dtype"], run["batch"], run["beams"]) for run in found["runs"]]
    assert cases == [(d, 2, b) for d in ("float32", "bfloat16") for b in (1, 4)]
    for run in found["runs"]:
        assert run["compilations_after_first"] == 0
        least, median, most = (run[f"tokens_per_second{end}"] for end in ("_min", "", "_max"))
        assert 0 < least <= median <= most and run["limit"] > 0
    narrow, wide = found["runs"][2]["limit"], found["runs"][0]["limit"]
    assert narrow == pytest.approx(2 * wide, rel=1e-3)
    assert "transformers does not decode beside: left out" in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.usefixtures("few_ids")
def test_transformers_decodes_beside():
    pytest.importorskip("transformers")
    model = mtf.build_model(["models/t5.1.1.small.gin"], list(TINY))
    found = decoding.time_decoding(model, batch=2, beams=2, rounds=2, with_peer=True)
    assert found["transformers_tokens_per_second"] > 0 and found["times_transformers"] > 0
