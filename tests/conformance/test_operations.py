"""Every operation on one device and on layouts that cover its dimensions: NumPy's numbers."""

import pytest

from mtf_models import mesh as language
from mtf_models.testing import check_op
from operation_cases import CASES

# What computes nothing, and what is random (tests/mesh/test_random.py).
NOT_IN_THE_TABLE = {
    *("Dimension", "LayoutRules", "Mesh", "RandomStream", "Shape", "Tensor", "Variable"),
    *("VariableDType", "VariableStore", "combined_dimension", "convert_to_dimension"),
    *("convert_to_shape", "get_variable", "gradients", "random_stream", "variable_scope"),
    *("dropout", "random_normal", "random_uniform"),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operation_equals_numpy_on_every_layout(case):
    check_op(case.function, case.inputs, case.reference, **case.options)


def test_every_operation_is_in_the_table():
    assert {case.name for case in CASES} | NOT_IN_THE_TABLE == set(language.__all__)
