"""Decoding of few rows is one kernel: it gives what the plain loop gives, and is counted here."""

import numpy as np
import pytest
import tensorflow as tf

from mtf_models.transformer import stepwise

INPUTS = np.array([[5, 7, 9, 1, 0, 0], [11, 2, 1, 0, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)
PROMPTS = np.array([[5, 7, 9, 0], [11, 0, 0, 0], [0, 0, 0, 0]], np.int32)


@pytest.fixture
def always(monkeypatch):
    """Any model is decoded as a kernel."""
    monkeypatch.setattr(stepwise, "_LEAST_WEIGHTS", 0)
    monkeypatch.setattr(stepwise, "_MOST_ROWS", 1000)


def graphs(model):
    """The functions in the graphs that a model has compiled, with their nodes."""
    compiled = [g.run for f in model._functions.values() for g in f._graphs.values()]
    return [f for run in compiled for f in run.graph.as_graph_def().library.function]


def kernels(model):
    """The functions that XLA compiles."""
    return [f for f in graphs(model) if f.attr["_XlaMustCompile"].b]


def body_sizes(model):
    """How many operations the bodies of loops have."""
    return [len(f.node_def) for f in graphs(model) if "body" in f.signature.name]


@pytest.mark.parametrize(
    "kind, options",
    [
        ("t5_tiny", {}),
        ("t5_tiny", {"beam_size": 3, "num_return": 2}),
        ("lm_tiny", {"temperature": 1.0, "top_k": 20, "top_p": 0.9}),
    ],
    ids=str,
)
def test_it_gives_what_the_plain_loop_gives(build, kind, options, monkeypatch):
    rows = {"inputs": PROMPTS if kind == "lm_tiny" else INPUTS}
    plain = build(kind, "num_layers = 1", seed=4)
    right = plain.decode(rows, max_decode_length=7, **options)
    assert not kernels(plain)
    monkeypatch.setattr(stepwise, "_LEAST_WEIGHTS", 0)
    monkeypatch.setattr(stepwise, "_MOST_ROWS", 1000)
    model = build(kind, "num_layers = 1", seed=4)
    found = model.decode(rows, max_decode_length=7, **options)
    assert len(kernels(model)) == 1
    np.testing.assert_array_equal(found.ids, right.ids)
    np.testing.assert_allclose(found.scores, right.scores, rtol=1e-5, atol=1e-5)


def test_a_listener_is_called_outside_of_a_kernel(build, always):
    model, heard = build("t5_tiny", "num_layers = 1", seed=4), []
    found = model.decode(
        {"inputs": INPUTS},
        max_decode_length=4,
        never_end=True,
        listener=lambda _, ids: heard.append(ids),
    )
    assert not kernels(model)
    np.testing.assert_array_equal(np.stack(heard, axis=1), found.ids)


def test_a_shape_is_compiled_once_and_a_step_costs_the_same_at_any_length(build):
    sizes = []
    for length in (4, 32):
        model = build("t5_tiny", "num_layers = 1", seed=4)
        for rows in (INPUTS, INPUTS[::-1], INPUTS + 1):
            model.decode({"inputs": rows}, max_decode_length=length)
        assert model.compilations == 1
        sizes.append(body_sizes(model))
    assert sizes[0] == sizes[1] and len(sizes[0]) == 1


@pytest.mark.parametrize("beam_size", [1, 3])
def test_xla_compiles_for_the_first_rows_of_a_shape_alone(build, always, tmp_path, beam_size):
    model, compiles = build("t5_tiny", "num_layers = 1", seed=4), []
    for rows in (INPUTS, INPUTS[::-1], INPUTS + 1, np.where(INPUTS > 4, INPUTS, 0)):
        folder = tmp_path / str(len(compiles))
        with tf.profiler.experimental.Profile(str(folder)):
            model.decode({"inputs": rows}, beam_size=beam_size, max_decode_length=5)
        (events,) = folder.rglob("*.xplane.pb")
        compiles.append(b"CompileCpuExecutable" in events.read_bytes())
    assert compiles == [True, False, False, False]
