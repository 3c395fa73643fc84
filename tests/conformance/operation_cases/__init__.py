"""The table of operations: how each is called, on what, and what NumPy says."""

from operation_cases import elementwise, functional, moving, reduction, selection, shaping, spatial

CASES = [
    case
    for subject in (elementwise, shaping, moving, selection, reduction, spatial, functional)
    for case in subject.CASES
]
