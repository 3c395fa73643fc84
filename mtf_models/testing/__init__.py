"""Checks that a function of named tensors gives the same on one device and on every layout."""

from mtf_models.testing.check import check_op, run_op
from mtf_models.testing.layer import check_layer, context_of
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
from mtf_models.testing.outcome import Outcome

__all__ = [
    "MESHES",
    "ONE_DEVICE",
    "Outcome",
    "Placement",
    "admissible",
    "all_admissible",
    "check_layer",
    "check_op",
    "context_of",
    "covering",
    "every",
    "most_split",
    "run_op",
]
