"""Checks that a function of named tensors gives the same on one device and on every layout."""

from mtf_models.testing.check import Outcome, check_op, run_op
from mtf_models.testing.layouts import (
    MESHES,
    ONE_DEVICE,
    Placement,
    admissible,
    all_admissible,
    covering,
    every,
    most_split,
)

__all__ = [
    "MESHES",
    "ONE_DEVICE",
    "Outcome",
    "Placement",
    "admissible",
    "all_admissible",
    "check_op",
    "covering",
    "every",
    "most_split",
    "run_op",
]
