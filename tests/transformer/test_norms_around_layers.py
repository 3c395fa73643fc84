"""The gin files that say where norms stand."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.config import parse
from mtf_models.runtime.registry import register
from mtf_models.testing import context_of
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.stack import make_layer_stack


class Square(TransformerLayer):
    """So that a norm before it is told from one after it."""

    def call(self, context, x):
        return x * x


def normed(x):
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True))


FILES = {
    "pre_norm": (lambda x: x + normed(x) ** 2, normed),
    "post_norm": (lambda x: normed(x + x**2), lambda x: x),
    "sandwich_norm": (lambda x: x + normed(normed(x) ** 2), normed),
}


@pytest.mark.parametrize("file", FILES)
def test_norms_stand_where_the_file_says(file):
    layer, final = FILES[file]
    register()
    mesh, array = mtf.Mesh(), np.random.default_rng(0).normal(size=(2, 3, 8))
    x = mtf.import_tf_tensor(mesh, np.float32(array), "batch:2 length:3 d_model:8")
    store = mtf.VariableStore(mesh)
    with parse([f"sublayers/{file}.gin"]).active(), store.eager():
        y = make_layer_stack(layers=[Square], num_layers=2).call(context_of(x), x)
    np.testing.assert_allclose(y, final(layer(layer(array))), rtol=1e-4, atol=1e-5)
    # Each has a scale of its own.
    assert len(store.variables) == {"pre_norm": 3, "post_norm": 2, "sandwich_norm": 5}[file]
