"""What is promised of every operation of the table, one test for each promise.

By default an operation runs on layouts that split each dimension over each axis, compiled on the
one that splits most; the tests marked slow run it on every layout there is.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from groups import grouped
from mtf_models import mesh as language
from mtf_models.testing import (
    MESHES,
    ONE_DEVICE,
    all_admissible,
    check_op,
    covering,
    most_split,
    run_op,
)
from operation_cases import CASES

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

# What computes nothing, and what is random (tests/mesh/test_random.py).
NOT_IN_THE_TABLE = {
    *("Dimension", "LayoutRules", "Mesh", "RandomStream", "Shape", "Tensor", "Variable"),
    *("VariableDType", "VariableStore", "combined_dimension", "convert_to_dimension"),
    *("convert_to_shape", "get_variable", "gradients", "random_stream", "variable_scope"),
    *("stacked_variables", "stands_for"),
    *("dropout", "random_normal", "random_uniform"),
}


def check(case, modes, placements):
    options = {"placements": placements, **case.options}
    check_op(case.function, case.inputs, case.reference, modes=modes, **options)


GROUPS, ALONE = grouped(CASES)
on_two_axes = functools.partial(most_split, meshes=MESHES[-1:])
every_dimension = functools.partial(covering, meshes=MESHES[-1:], pairs=False)


@each_case
def test_eager_values_and_gradients_equal_the_reference_on_layouts_that_cover(case):
    check(case, ["eager"], on_two_axes if case.is_costly else every_dimension)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_compiled_values_and_gradients_equal_the_reference_on_the_most_split_layout(group):
    check_op(
        group.function,
        group.inputs,
        group.reference,
        placements=on_two_axes,
        differentiate=group.differentiate,
        gradient_reference=group.gradients,
        modes=["compiled"],
    )


def first_of_each_name(cases):
    """The others of a name that is costly to compile are left to the slow tests."""
    seen = set()
    for case in cases:
        repeated = case.is_costly and case.name in seen
        seen.add(case.name)
        yield pytest.param(case, marks=[pytest.mark.nightly] if repeated else [], id=case.name)


@pytest.mark.parametrize("case", [*first_of_each_name(ALONE)])
def test_compiled_alone_they_equal_the_reference_on_the_most_split_layout(case):
    check(case, ["compiled"], on_two_axes)


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@each_case
def test_values_and_gradients_equal_the_reference_on_every_layout(case, mode):
    # Compiling a convolution on all of its hundreds takes a quarter of an hour.
    options = {**case.options, "placements": covering if case.is_costly else all_admissible}
    check_op(case.function, case.inputs, case.reference, modes=[mode], **options)


@each_case
def test_an_abstract_pass_knows_the_shapes_and_dtypes(case):
    found = run_op(case.function, case.inputs, ONE_DEVICE)
    mesh = mtf.Mesh("all:8", "b:all").abstract()
    with tf.Graph().as_default():
        tensors = [
            mtf.import_tf_tensor(mesh, single(array), shape)
            for shape, array in case.inputs.values()
        ]
        results = case.function(*tensors)
    results = list(results) if isinstance(results, list | tuple) else [results]
    assert [x.shape for x in results] == found.shapes
    assert [x.dtype.as_numpy_dtype for x in results] == [v.dtype for v in found.values]
    assert mesh.engine.faults == []


BFLOAT16 = 2.0**-8
"""The relative distance of neighbours."""


@each_case
def test_bfloat16_values_are_near_the_reference(case):
    floating = {n for n, (_, array) in case.inputs.items() if array.dtype.kind == "f"}
    if not floating or case.float32_only:
        pytest.skip("no floating input, or float32 is part of what it does")
    narrow = {
        name: (shape, tf.cast(array, tf.bfloat16).numpy() if name in floating else array)
        for name, (shape, array) in case.inputs.items()
    }
    rounded = [a.astype(np.float64) if n in floating else a for n, (_, a) in narrow.items()]
    expected = case.reference(*rounded)
    expected = list(expected) if isinstance(expected, list | tuple) else [expected]
    found = run_op(case.function, narrow, ONE_DEVICE)
    for value, right in zip(found.values, expected, strict=True):
        tolerance = case.bfloat16_steps * BFLOAT16
        scale = max(1.0, float(np.abs(right).max()))
        value = (
            value.astype(np.float64)
            if value.dtype.kind == "V" or right.dtype.kind == "f"
            else value
        )
        np.testing.assert_allclose(value, right, rtol=tolerance, atol=tolerance * scale)


def single(array):
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def test_every_operation_is_in_the_table():
    assert {case.name for case in CASES} | NOT_IN_THE_TABLE == set(language.__all__)
