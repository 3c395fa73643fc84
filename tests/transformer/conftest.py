"""Tiny models, and batches for them."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.transformer.context import Context

FOLDER = Path(__file__).parent


@pytest.fixture(scope="session")
def build():
    """Builds `t5_tiny.gin` or `lm_tiny.gin`."""

    def build(name, *params, mesh=None, **kwargs):
        return mtf.build_model([str(FOLDER / f"{name}.gin")], list(params), mesh, **kwargs)

    return build


@pytest.fixture
def make_context():
    """A context for layers that are called eagerly, without padding."""

    def make_context(batch, length, d_model, mesh=None, **options):
        mesh = mesh or mtf.Mesh()
        return Context(
            mesh=mesh,
            mode="eval",
            variable_dtype=mtf.VariableDType(),
            length_dim=length,
            memory_length_dim=mtf.Dimension("memory_length", length.size),
            d_model=d_model,
            position=mtf.mtf_range(mesh, length),
            autoregressive=options.pop("autoregressive", False),
            **options,
        )

    return make_context


@pytest.fixture(scope="session")
def shapes(build):
    """The shapes of the variables of a model, as lists by name; nothing is allocated."""

    def shapes(name, *params):
        variables = build(name, *params).variables
        return {n: v.shape.to_integer_list for n, v in variables.items()}

    return shapes


@pytest.fixture(scope="session")
def sentences():
    """Examples of several lengths, each ending in 1, for packing and padding."""
    rng = np.random.default_rng(5)

    def sentence(length):
        return [*rng.integers(2, 100, length - 1).tolist(), 1]

    lengths = {"inputs": (3, 5, 4, 7), "targets": (2, 6, 5, 4)}
    return {name: [sentence(n) for n in found] for name, found in lengths.items()}


@pytest.fixture(scope="session")
def rows():
    """Puts sentences into padded rows."""
    return SimpleNamespace(unpacked=_unpacked, packed=_packed)


def _unpacked(sentences, lengths):
    return {
        name: np.array([s + [0] * (lengths[name] - len(s)) for s in sentences[name]], np.int32)
        for name in lengths
    }


def _packed(sentences, lengths, bins):
    """Row i has the sentences whose numbers are in `bins[i]`, with segments and positions."""
    features = {}
    for name, length in lengths.items():
        for suffix in ("", "_segmentation", "_position"):
            features[name + suffix] = np.zeros([len(bins), length], np.int32)
        for row, numbers in enumerate(bins):
            at = 0
            for segment, number in enumerate(numbers, 1):
                ids = sentences[name][number]
                here = np.s_[row, at : at + len(ids)]
                features[name][here] = ids
                features[f"{name}_segmentation"][here] = segment
                features[f"{name}_position"][here] = range(len(ids))
                at += len(ids)
    return features
