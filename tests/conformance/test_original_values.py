"""The numbers that the original gave for its operations and layers: fixtures/ops."""

import re

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ShapeError
from original_cases import FUNCTIONS, MENDED, REFUSED


@pytest.fixture(scope="module")
def recorded(fixtures_dir):
    """Case to what was recorded of it, by kind and name."""
    cases = {}
    with np.load(fixtures_dir / "ops" / "ops.npz") as arrays:
        for key in arrays.files:
            case, what = key.split("/", 1)
            cases.setdefault(case, {})[what] = arrays[key]
    return cases


def kind(case, name):
    return {
        key.split("/", 1)[1]: value for key, value in case.items() if key.split("/", 1)[0] == name
    }


class Run:
    """One case computed with the recorded inputs and variables, with the recorded gradients."""

    def __init__(self, function, case, mesh, compiled):
        self.function, self.case, self.mesh = function, case, mesh
        shapes = {n: mtf.Shape(str(s)) for n, s in kind(case, "in_shape").items()}
        self.inputs = {
            n: mtf.import_tf_tensor(mesh, array, shapes[n]) for n, array in kind(case, "in").items()
        }
        self.store = mtf.VariableStore(mesh)
        with self.store.collecting():
            function(**{n: mtf.zeros(mesh, x.shape, x.dtype) for n, x in self.inputs.items()})
        for name, value in kind(case, "var").items():
            self.store.variables[name].assign(value)
        self.shapes = {}
        values = {n: x.value for n, x in self.inputs.items()}
        step = tf.function(self.step, autograph=False) if compiled else self.step
        with mesh.calling():
            outputs, slopes, table_slopes = step(values, self.store.read())
        self.outputs = {n: mesh.engine.fetch(y) for n, y in outputs.items()}
        self.slopes = {n: mesh.engine.fetch(g) for n, g in slopes.items()}
        self.table_slopes = {n: mesh.engine.fetch(g) for n, g in table_slopes.items()}

    def step(self, values, table):
        named = {n: mtf.Tensor(self.mesh, self.inputs[n].shape, v) for n, v in values.items()}
        by = [n for n in kind(self.case, "grad")]
        variables = [n for n in kind(self.case, "grad_var")]
        with tf.GradientTape() as tape, self.store.serving(table):
            tape.watch([values[n] for n in by] + [table[n] for n in variables])
            outputs = self.function(**named)
            loss = None
            for name, weights in kind(self.case, "cotangent").items():
                y = outputs[name]
                weights = mtf.import_tf_tensor(self.mesh, weights, y.shape)
                loss = mtf.reduce_sum(y * weights)
        self.shapes = {n: y.shape for n, y in outputs.items()}
        slopes = {}
        if by or variables:
            sources = [named[n] for n in by]
            sources += [
                mtf.Tensor(self.mesh, self.store.variables[n].shape, table[n]) for n in variables
            ]
            found = mtf.gradients(tape, loss, sources)
            slopes = dict(zip([*by, *variables], [g.value for g in found], strict=True))
        return (
            {n: y.value for n, y in outputs.items()},
            {n: slopes[n] for n in by},
            {n: slopes[n] for n in variables},
        )


def expected(name, case, what):
    mended = MENDED.get((name, what))
    return case[what] if mended is None else mended(case)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in REFUSED])
def test_the_original_gave_the_same(recorded, name, compiled):
    case = recorded[name]
    run = Run(FUNCTIONS[name], case, mtf.Mesh(), compiled)
    assert set(run.store.variables) == set(kind(case, "var"))
    assert set(run.outputs) == set(kind(case, "out"))
    found = {
        **{f"out/{n}": y for n, y in run.outputs.items()},
        **{f"grad/{n}": g for n, g in run.slopes.items()},
        **{f"grad_var/{n}": g for n, g in run.table_slopes.items()},
    }
    for what, value in found.items():
        right = expected(name, case, what)
        scale = max(1.0, float(np.abs(right.astype(np.float64)).max(initial=0)))
        np.testing.assert_allclose(
            value.astype(np.float64),
            right.astype(np.float64),
            rtol=1e-5,
            atol=1e-5 * scale,
            err_msg=what,
        )
    for n, shape in run.shapes.items():
        assert shape == mtf.Shape(str(case[f"out_shape/{n}"])), n


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_original_took_and_is_refused(recorded, name):
    with pytest.raises(ShapeError, match=f"^{re.escape(REFUSED[name])}"):
        Run(FUNCTIONS[name], recorded[name], mtf.Mesh(), False)


def test_mended_values_differ_from_the_originals(recorded):
    for (name, what), value in MENDED.items():
        assert not np.allclose(value(recorded[name]), recorded[name][what])


# tests/decode/test_original_values.py
ELSEWHERE = {
    *("beam_search_alpha0_len4", "beam_search_exact", "beam_search_no_early_stop"),
    *("beam_search_prefilter0", "beam_search_prefilter2", "greedy_decode_toy"),
}


def test_every_recorded_case_is_compared(recorded):
    assert set(FUNCTIONS) | ELSEWHERE == set(recorded)
