"""The tiny models of the transformer's tests, and a batch for them."""

from pathlib import Path

import numpy as np
import pytest

import mtf_models as mtf

CONFIGS = Path(__file__).parents[1] / "transformer"


@pytest.fixture(scope="session")
def build():
    """Builds `t5_tiny.gin` or `lm_tiny.gin`."""

    def build(name, *params, mesh=None, **kwargs):
        return mtf.build_model([str(CONFIGS / f"{name}.gin")], list(params), mesh, **kwargs)

    return build


@pytest.fixture(scope="session")
def features():
    """Eight rows of inputs and targets of several lengths, each ending in 1."""
    rng = np.random.default_rng(7)
    found = {}
    for name, length in {"inputs": 12, "targets": 10}.items():
        ids = rng.integers(2, 100, [8, length], np.int32)
        for row, end in zip(ids, rng.integers(3, length, 8), strict=True):
            row[end:] = 0
            row[end - 1] = 1
        found[name] = ids
    return found


@pytest.fixture(scope="session")
def of_varied_ids():
    """Makes what a model decodes vary, and never be id 0, which whole rows take for padding."""

    def of_varied_ids(model, ending=1.0):
        rng = np.random.default_rng(22)
        for name, variable in model.variables.items():
            value = rng.normal(0.0, 0.6, variable.shape.to_integer_list)
            if name == "shared/embedding":  # That what comes next depends on more than the last id.
                value *= 0.2
            if name == "decoder/logits/kernel":
                value[:, 0] = 0.0
                value[:, 1] *= ending
            variable.assign(value)
        return model

    return of_varied_ids
