"""The table of operations: how each is called, on what, and what NumPy says."""

from operation_cases import elementwise, functional, moving, reduction, selection, shaping

CASES = [
    case
    for subject in (elementwise, shaping, moving, selection, reduction, functional)
    for case in subject.CASES
]
