"""Models from configs: their sizes, and the faults of layouts, all in one message."""

import logging
import math
import subprocess
import sys

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import LayoutError

ORIGINALS = "ensemble:ensemble,batch:batch,d_ff:model,heads:model,vocab:model,experts:batch"
"""The rules that every config of the original has."""


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("t5.1.0.small", 60_506_624),
        ("t5.1.0.base", 222_903_552),
        ("t5.1.0.3B", 2_851_598_336),
        ("t5.1.1.small", 76_961_152),
        ("t5.1.1.base", 247_577_856),
    ],
)
def test_parameters_of_released_models(name, parameters):
    assert mtf.build_model([f"models/{name}.gin"]).parameters == parameters


def test_parameters_of_byt5():
    # Xue et al. 2022, table 1: 300 million, as of mT5 small.
    assert mtf.build_model(["models/byt5.small.gin"]).parameters == pytest.approx(300e6, rel=0.01)


@pytest.mark.slow
def test_the_largest_model_is_listed_without_allocating_it():
    script = (
        "import time, mtf_models as mtf\n"
        "model = mtf.build_model(['models/t5.1.0.11B.gin'])\n"
        "sizes = {n: v.shape.size for n, v in model.variables.items()}\n"
        "(peak,) = [x.split()[1] for x in open('/proc/self/status') if x.startswith('VmHWM')]\n"
        "print(len(sizes), sum(sizes.values()), time.process_time(), peak)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    number, parameters, seconds, kilobytes = done.stdout.split()
    # Raffel et al. 2020, section 3.7.
    d_model, d_ff, inner, blocks, rows = 1024, 65536, 128 * 128, 24, 32128
    attention, feed_forward = 4 * d_model * inner, 2 * d_model * d_ff
    norms = blocks * 5 + 2
    weights = blocks * (3 * attention + 2 * feed_forward) + norms * d_model
    assert int(parameters) == weights + rows * d_model + 2 * 128 * 32
    assert int(number) == blocks * (3 * 4 + 2 * 2) + norms + 1 + 2
    assert float(seconds) < 20
    assert int(kilobytes) < 1.5e6


@pytest.mark.parametrize("name", ["t5.1.1.small", "t5.1.0.small"])
def test_a_fresh_model_knows_nothing(name):
    # The logits of T5 1.1 are of a kernel of its own, those of T5 1.0 of the embedding.
    model = mtf.build_model(
        [f"models/{name}.gin"], ["get_variable_dtype.activation_dtype='float32'"]
    )
    rng = np.random.default_rng(0)
    features = {name: rng.integers(2, 32100, [2, 16]) for name in ("inputs", "targets")}
    assert float(model(features).loss) == pytest.approx(math.log(32128), abs=1.0)


BAD = ["d_ff = 512", "num_heads = 6", "d_kv = 64", "num_layers = 2", "run.batch_size = 4"]
DATA_MODEL = "batch:data,heads:model,vocab:model,d_ff:model"


def build(*params, mesh="data:8;model:8", layout=DATA_MODEL, **kwargs):
    """T5 1.1 small on a mesh whose devices need not be there."""
    gin_params = ["Unitransformer.vocab_divisor = 1", *params]
    mesh = mtf.Mesh(mesh, layout=layout)
    return mtf.build_model(["models/t5.1.1.small.gin"], gin_params, mesh, **kwargs)


def items(error):
    """The numbered lines of a message."""
    lines = str(error).splitlines()
    return [line.strip() for line in lines if line.strip()[:1].isdigit()]


def test_all_bad_dimensions_are_in_one_message():
    with pytest.raises(LayoutError) as caught:
        build(*BAD)
    found = items(caught.value)
    assert len(found) == 3
    batch, heads, vocab = (
        next(x for x in found if f"dimension {n} " in x) for n in ("batch", "heads", "vocab")
    )
    assert "size 4" in batch and "8 parts of axis data" in batch and "inputs, targets" in batch
    assert "size 6" in heads and "8 parts of axis model" in heads and "SelfAttention" in heads
    assert "size 32100" in vocab and "remainder 4" in vocab and "shared/embedding" in vocab
    assert "32104, or 32128 if padded to a multiple of 128" in vocab and "--pad_vocab" in vocab


def test_padding_the_vocabulary_mends_it():
    fits = ["num_heads = 8", "run.batch_size = 8"]
    model = build(*BAD, *fits, pad_vocab=True)
    assert model.variables["shared/embedding"].shape == mtf.Shape("vocab:32104 d_model:512")


def test_two_dimensions_of_a_tensor_on_one_axis():
    with pytest.raises(LayoutError) as caught:
        build(mesh="all:8", layout="batch:all,d_ff:all")
    (item,) = items(caught.value)
    assert "dimensions batch and d_ff of one tensor" in item and "axis all" in item
    assert "DenseReluDense" in item and "drop the layout rule of one of batch and d_ff" in item


@pytest.mark.parametrize(
    ("layout", "hint"),
    [
        ("heds:model", "'heds'; did you mean heads?"),
        ("heads:modle", "'modle'; did you mean model?"),
        ("heds:model,vocab:modle", "did you mean model?"),
    ],
)
def test_misspelt_rules_are_told_the_nearest_names(layout, hint):
    with pytest.raises(LayoutError) as caught:
        build("num_layers = 1", mesh="batch:2;model:4", layout=layout)
    assert hint in str(caught.value)
    assert len(items(caught.value)) == layout.count(":")


@pytest.mark.parametrize("mesh", ["", "batch:2;model:4", "model:8", "batch:8", "all:2"])
def test_the_originals_rules_are_no_misspelling(caplog, mesh):
    caplog.set_level(logging.INFO, "mtf_models")
    params = ["num_heads = 8", "Unitransformer.vocab_divisor = 128", "num_layers = 1"]
    build(*params, mesh=mesh, layout=ORIGINALS)
    reports = [r.message for r in caplog.records if "without effect" in r.message]
    assert len(reports) == (1 if mesh else 0)
    assert all("ensemble:ensemble" in r and "experts:batch" in r for r in reports)


WHOLE = {"mesh": "batch:2;model:4", "layout": "batch:batch,heads:model"}


def test_weights_that_stay_whole_are_reported_with_their_bytes(caplog):
    model = build("num_heads = 8", "num_layers = 1", **WHOLE)
    reports = [r for r in caplog.records if "whole on every device" in r.message]
    assert [r.levelno for r in reports] == [logging.WARNING]
    table = 32100 * 512 * 4 / 1e6
    assert f"shared/embedding ({table:.1f} MB)" in reports[0].message
    whole = [v for n, v in model.variables.items() if n.endswith(("kernel", "embedding"))]
    total = sum(v.shape.size for v in whole) * 4 / 1e6
    assert f"{total:.1f} MB of each" in reports[0].message


def test_weights_that_stay_whole_are_refused_when_strict():
    with pytest.raises(LayoutError, match="shared/embedding.*Add a layout rule"):
        build("num_heads = 8", "num_layers = 1", strict=True, **WHOLE)
    build(
        "num_heads = 8",
        "num_layers = 1",
        "Unitransformer.vocab_divisor = 8",
        strict=True,
        mesh="batch:2;model:4",
        layout="batch:batch,heads:model,d_ff:model,vocab:model",
    )
