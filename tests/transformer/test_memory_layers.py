"""Product key memories."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.memory_layers import ProductKeyValueMemory


def test_the_nearest_pairs():
    # Two heads; the halves of a key score as listed, the best two sums are wanted.
    memory = ProductKeyValueMemory(key_size=2, n_keys=3, n_heads=2, knn=2)
    halves = np.array([[[4, 1, 2], [2, -1, 2]], [[1, 2, 5], [6, 1, 4]]], np.float32)
    x = mtf.import_tf_tensor(mtf.Mesh(), halves, [memory.heads, memory.halves, memory.keys])
    scores, slots = memory.nearest(x)
    assert scores.numpy().tolist() == [[6, 6], [11, 9]]
    assert slots.numpy().tolist() == [[0, 2], [6, 8]]


@pytest.mark.parametrize("mesh, layout", [("", ""), ("model:2", "heads:model")])
def test_against_all_pairs(make_context, mesh, layout):
    mesh = mtf.Mesh(mesh, layout=layout)
    memory = ProductKeyValueMemory(key_size=6, n_keys=5, n_heads=2, knn=3)
    batch, length = mtf.Dimension("batch", 2), mtf.Dimension("length", 3)
    context = make_context(batch, length, mtf.Dimension("d_model", 8), mesh)
    array = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32)
    store = mtf.VariableStore(mesh, seed=1)
    with store.eager():
        x = mtf.import_tf_tensor(mesh, array, [batch, length, context.d_model])
        found = memory.call(context, x)
    value = {name: variable.numpy() for name, variable in store.variables.items()}
    query = np.einsum("bld,dhck->blhck", array, value["query/kernel"]) + value["query/bias"]
    query = query - query.mean(-1, keepdims=True)
    query /= np.sqrt((query**2).mean(-1, keepdims=True) + 1e-6)
    halves = np.einsum("blhck,hcnk->blhcn", query, value["keys"])
    every = (halves[..., 0, :, None] + halves[..., 1, None, :]).reshape(2, 3, 2, 25)
    right = np.zeros_like(array)
    for place in np.ndindex(2, 3, 2):
        best = np.argsort(-every[place])[:3]
        weights = np.exp(every[place][best])
        right[place[:2]] += weights / weights.sum() @ value["values"][best]
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{"key_size": 5}, {"knn": 4}, {"n_heads": 0}])
def test_sizes_that_do_not_fit(options):
    with pytest.raises(ConfigError, match="ProductKeyValueMemory"):
        ProductKeyValueMemory(**{"key_size": 4, "n_keys": 3, "n_heads": 1, "knn": 2, **options})
