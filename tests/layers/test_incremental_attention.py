"""One position after another gives what the whole sequence does."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.layers import attention_masks, local_attention, multihead_attention

BATCH, LENGTH, IO = mtf.Dimension("batch", 4), mtf.Dimension("length", 6), mtf.Dimension("io", 4)
HEADS, KV = mtf.Dimension("heads", 2), mtf.Dimension("kv", 3)
X = np.random.default_rng(0).normal(size=(4, 6, 4)).astype(np.float32)
MESHES = [("", ""), ("r:2;c:2", "batch:r,heads:c")]


@pytest.fixture(params=MESHES, ids=["one device", "mesh"])
def mesh(request):
    return mtf.Mesh(*request.param)


def positions(mesh):
    x = mtf.import_tf_tensor(mesh, X, [BATCH, LENGTH, IO])
    return x, mtf.unstack(x, LENGTH)


def stepwise(rows, mesh, memory, step):
    """[batch, length, io] of a step that takes and returns keys and values."""
    shape = mtf.Shape([BATCH, HEADS, memory, KV])
    k, v = mtf.zeros(mesh, shape), mtf.zeros(mesh, shape)
    found = []
    for i, row in enumerate(rows):
        y, k, v = step(row, k, v, mtf.constant(mesh, i, dtype="int32"))
        found.append(y.numpy())
    return np.stack(found, 1)


def test_self_attention(mesh):
    with mtf.VariableStore(mesh).eager():
        x, rows = positions(mesh)
        mask = attention_masks.attention_mask_autoregressive(mtf.range(mesh, LENGTH))
        whole = multihead_attention.multihead_attention(x, None, mask, KV, HEADS)
        memory = mtf.Dimension("memory_length", LENGTH.size)
        found = stepwise(
            rows, mesh, memory, multihead_attention.multihead_self_attention_incremental
        )
    np.testing.assert_allclose(found, whole.numpy(), rtol=1e-4, atol=1e-5)


def test_attention_to_a_memory(mesh):
    with mtf.VariableStore(mesh).eager() as _, mtf.variable_scope("multihead_attention"):
        x, rows = positions(mesh)
        memory = attention_masks.rename_length_to_memory_length(x)
        w = multihead_attention.multihead_attention_vars(mesh, HEADS, IO, KV)
    with mtf.VariableStore(mesh).eager():
        ids = mtf.import_tf_tensor(mesh, np.int32([[1, 2, 0, 3, 0, 4]] * 4), [BATCH, LENGTH])
        mask = attention_masks.attention_mask_ignore_padding(ids)
        whole = multihead_attention.multihead_attention(x, memory, mask, KV, HEADS)
        shape = [BATCH, HEADS, memory.shape.dims[1], KV]
        k, v = (mtf.einsum([memory, part], output_shape=shape) for part in (w.wk, w.wv))
        found = [
            multihead_attention.multihead_encdec_attention_incremental(row, w.wq, w.wo, k, v, mask)
            for row in rows
        ]
    found = np.stack([y.numpy() for y in found], 1)
    np.testing.assert_allclose(found, whole.numpy(), rtol=1e-4, atol=1e-5)


def test_local_attention(mesh):
    # In blocks as long as the window, which then sees as far back as the window.
    with mtf.VariableStore(mesh).eager():
        x, rows = positions(mesh)
        whole = local_attention.masked_local_attention_1d(
            x, KV, HEADS, window_size=3, length_per_split=3
        )
        window = mtf.Dimension("window", 3)
        found = stepwise(rows, mesh, window, local_attention.masked_local_attention_1d_incremental)
    np.testing.assert_allclose(found, whole.numpy(), rtol=1e-4, atol=1e-5)


def test_keys_and_values_are_handed_out(mesh):
    kept = []
    with mtf.VariableStore(mesh).eager():
        x, _ = positions(mesh)
        local_attention.masked_local_attention_1d(x, KV, HEADS, window_size=3, return_kv=kept)
    assert [t.shape for t in kept] == [mtf.Shape([BATCH, LENGTH, HEADS, KV])] * 2


def test_masks_of_blocks():
    mesh = mtf.Mesh()
    h, w = mtf.Dimension("h", 2), mtf.Dimension("w", 2)
    memory = mtf.Dimension("memory", 4)
    found = attention_masks.attention_bias_local_block(mesh, h, memory).numpy()
    np.testing.assert_array_equal(found == 0, [[1, 1, 1, 0], [1, 1, 1, 1]])
    memory_h, memory_w = mtf.Dimension("memory_h", 3), mtf.Dimension("memory_w", 3)
    found = attention_masks.attention_bias_local_2d_block(mesh, h, w, memory_h, memory_w)
    row, column = np.indices((2, 2)) + 1
    seen = np.indices((3, 3))
    for i in range(2):
        for j in range(2):
            before = (seen[0] < row[i, j]) | ((seen[0] == row[i, j]) & (seen[1] <= column[i, j]))
            np.testing.assert_array_equal(found.numpy()[i, j] == 0, before)


@pytest.mark.parametrize("step", [False, True])
def test_weights_are_computed_in_float32(step):
    """300 alike keys: in bfloat16 the logarithm of the sum would be off by one part in twenty."""
    mesh, memory = mtf.Mesh(), mtf.Dimension("memory_length", 300)
    shape = mtf.Shape([BATCH, HEADS, memory, KV])
    one = mtf.ones(mesh, shape, "bfloat16")
    q = mtf.ones(mesh, mtf.Shape([BATCH, HEADS, LENGTH, KV]), "bfloat16") * (20.0 / KV.size)
    if step:
        logits = mtf.einsum([q, one], output_shape=q.shape - KV + memory)
        found = multihead_attention.attention_weights(logits, memory)
        found = mtf.reduce_sum(mtf.to_float(found), reduced_dim=memory)
    else:
        found = multihead_attention.dot_product_attention(q, one, one, None)
    assert found.dtype == ("float32" if step else "bfloat16")
    np.testing.assert_allclose(np.asarray(mtf.to_float(found).numpy()), 1.0, rtol=0.01)
