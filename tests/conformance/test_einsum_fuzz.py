"""Any equation on any layout of eight devices: NumPy's numbers, or a refusal."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import mtf_models as mtf
from mtf_models.errors import LayoutError
from mtf_models.testing import admissible, check_op, every, run_op

MESHES = ["all:8", "a:2;b:4", "a:4;b:2"]
NAMES = "pqrst"
MODES = ("eager", "compiled")


class Equation(NamedTuple):
    operands: list[mtf.Shape]
    output: mtf.Shape
    arguments: dict

    def compute(self, *tensors):
        return mtf.einsum(tensors, **self.arguments)

    def reference(self, *arrays):
        return product(list(zip(self.operands, arrays, strict=True)), self.output)

    def gradients(self, dy, *arrays):
        terms = list(zip(self.operands, arrays, strict=True))
        result = (self.output, dy[0].astype(np.float64))
        return {
            f"x{i}": product([*terms[:i], *terms[i + 1 :], result], shape)
            for i, shape in enumerate(self.operands)
        }


def product(terms, output):
    """The sum of products by NumPy; what `output` alone has is broadcast."""
    found = {dim.name for shape, _ in terms for dim in shape}
    terms = [*terms, *[([dim], np.ones(dim.size)) for dim in output if dim.name not in found]]
    equation = ",".join("".join(dim.name for dim in shape) for shape, _ in terms)
    equation += "->" + "".join(output.dimension_names)
    return np.einsum(equation, *[array for _, array in terms])


@st.composite
def equations(draw):
    dims = [mtf.Dimension(name, draw(st.sampled_from([8, 16]))) for name in NAMES]
    dims = dims[: draw(st.integers(2, len(dims)))]
    some = st.lists(st.sampled_from(dims), max_size=4, unique=True).map(mtf.Shape)
    operands = draw(st.lists(some, min_size=1, max_size=3))
    found = list(dict.fromkeys(dim for shape in operands for dim in shape))
    form = draw(st.sampled_from(["output_shape", "reduced_dims", "default"]))
    if form == "output_shape":
        output = draw(some)
        return Equation(operands, output, {"output_shape": output})
    reduced = [dim for dim in found if sum(dim in shape for shape in operands) > 1]
    arguments = {}
    if form == "reduced_dims":
        reduced = draw(st.lists(st.sampled_from(found), unique=True)) if found else []
        arguments = {"reduced_dims": reduced}
    return Equation(operands, mtf.Shape([dim for dim in found if dim not in reduced]), arguments)


@st.composite
def cases(draw):
    """An equation and a placement that splits something; in one of four cases it does not fit."""
    equation = draw(equations())
    shapes = [*equation.operands, equation.output]
    candidates = list(every(shapes, draw(st.sampled_from(MESHES))))
    fits = draw(st.sampled_from([True, True, True, False]))
    candidates = [p for p in candidates if admissible(p, shapes) == fits]
    assume(candidates)
    return equation, draw(st.sampled_from(candidates))


def check(equation, placement):
    note(f"{equation} on {placement}")
    random = np.random.default_rng(0)
    inputs = {
        f"x{i}": (shape, random.normal(size=shape.to_integer_list))
        for i, shape in enumerate(equation.operands)
    }
    if admissible(placement, [*equation.operands, equation.output]):
        check_op(
            equation.compute,
            inputs,
            equation.reference,
            gradient_reference=equation.gradients,
            placements=[placement],
        )
        return
    for mode in MODES:
        with pytest.raises(LayoutError):
            run_op(equation.compute, inputs, placement, compiled=mode == "compiled")


@settings(max_examples=70)
@given(cases())
def test_any_einsum_equals_numpy_or_is_refused(case):
    check(*case)


@pytest.mark.nightly
@settings(max_examples=500)
@given(cases())
def test_many_einsums_equal_numpy_or_are_refused(case):
    check(*case)
