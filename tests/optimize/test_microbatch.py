"""Micro-batches give what the whole batch gives."""

import gin
import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.errors import LayoutError, ShapeError
from mtf_models.optimize.microbatch import in_microbatches, num_microbatches

BATCH, IN, OUT = mtf.Dimension("batch", 16), mtf.Dimension("d_model", 4), mtf.Dimension("d_ff", 8)
X, Y, W = mtf.Shape([BATCH, IN]), mtf.Shape([BATCH, OUT]), mtf.Shape([IN, OUT])
MESHES = {
    "one device": ("", ""),
    "batch": ("batch:4", "batch:batch"),
    "batch and model": ("batch:2;model:4", "batch:batch,d_ff:model"),
}


def arrays():
    random = np.random.default_rng(3)
    x, y, w = (random.integers(-4, 5, size=s.to_integer_list) for s in (X, Y, W))
    return {"x": x, "y": y, "w": w}


def quadratic(mesh, w):
    """The step of a model whose loss is the squared error, summed."""

    def step(features, index):
        with tf.GradientTape() as tape:
            tape.watch(w.value)
            y = features["y"]
            error = mtf.einsum([features["x"], w], output_shape=y.shape) - y
            by_row = mtf.reduce_sum(mtf.square(error), reduced_dim=OUT)
            loss = mtf.reduce_sum(by_row)
        grads = dict(zip(["w"], mtf.gradients(tape, loss, [w]), strict=True))
        outputs = {
            "loss": loss,
            "error": mtf.transpose(error, [OUT, *(error.shape - OUT)]),
            "row": mtf.to_int32(by_row),
            "large": mtf.greater(by_row, 500.0),
            "half": mtf.to_bfloat16(features["half"]),
            "index": index,
        }
        return grads, outputs

    return step


def run(mesh, num_splits, compiled):
    def whole_step(x, y, w, half):
        features = {
            "x": mtf.Tensor(mesh, X, x),
            "y": mtf.Tensor(mesh, Y, y),
            "half": mtf.Tensor(mesh, mtf.Shape(), half),
        }
        step = quadratic(mesh, mtf.Tensor(mesh, W, w))
        grads, outputs = in_microbatches(features, step, BATCH, num_splits)
        found = {**grads, **outputs}
        shapes.update({name: t.shape for name, t in found.items()})
        return {name: t.value for name, t in found.items()}

    shapes = {}
    function = tf.function(whole_step, autograph=False) if compiled else whole_step
    held = {
        name: mtf.import_tf_tensor(mesh, value.astype(np.float32), shape).value
        for (name, value), shape in zip(arrays().items(), (X, Y, W), strict=True)
    }
    held["half"] = mtf.constant(mesh, 0.5).value
    with mesh.calling():
        found = function(**held)
    return {name: mesh.engine.fetch(t) for name, t in found.items()}, shapes


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("num_splits", [1, 2, 4])
def test_micro_batches_equal_the_whole_batch(mesh, num_splits, compiled):
    shape, layout = MESHES[mesh]
    found, shapes = run(mtf.Mesh(shape, layout=layout), num_splits, compiled)
    x, y, w = arrays().values()
    error = x @ w - y
    rows = np.square(error).sum(1)
    # Whole numbers below 2^24: every order of summation gives the same float32.
    np.testing.assert_array_equal(found["w"], 2 * x.T @ error)
    assert found["loss"] == rows.sum()
    np.testing.assert_array_equal(found["error"], error.T)
    np.testing.assert_array_equal(found["row"], rows)
    np.testing.assert_array_equal(found["large"], rows > 500)
    assert 0 < found["large"].sum() < 16
    assert found["half"] == 0.5 * num_splits
    assert found["half"].dtype == (np.float32 if num_splits > 1 else tf.bfloat16.as_numpy_dtype)
    assert found["index"] == sum(range(num_splits))
    assert shapes["error"] == mtf.Shape([OUT, BATCH])


def test_a_micro_batch_takes_every_nth_row():
    mesh, seen = mtf.Mesh(), []

    def step(features, index):
        if tf.executing_eagerly():
            seen.append((int(index), features["x"].numpy().tolist()))
        return {}, {}

    rows = mtf.mtf_range(mesh, mtf.Dimension("batch", 6))
    in_microbatches({"x": rows}, step, mtf.Dimension("batch", 6), 3)
    assert seen == [(0, [0, 3]), (1, [1, 4]), (2, [2, 5])]


@pytest.mark.parametrize("num_splits", [0, 3])
def test_a_batch_that_does_not_divide_is_refused(num_splits):
    rows = mtf.mtf_range(mtf.Mesh(), BATCH)
    with pytest.raises(ShapeError, match=f"batch=16 cannot be divided into {num_splits}"):
        in_microbatches({"x": rows}, lambda *_: ({}, {}), BATCH, num_splits)


def test_micro_batches_too_small_for_the_mesh_are_refused():
    rows = mtf.mtf_range(mtf.Mesh("batch:8", layout="batch:batch"), BATCH)
    with pytest.raises(LayoutError, match="dimension batch of size 4 does not divide"):
        in_microbatches({"x": rows}, lambda *_: ({}, {}), BATCH, 4)


@pytest.mark.parametrize(
    ("batch_size", "lengths", "splits", "tokens", "wanted"),
    [
        (128, {"inputs": 512, "targets": 114}, 1, None, 1),
        (128, {"inputs": 512, "targets": 114}, 1, 2048, 32),
        (128, {"inputs": 512, "targets": 114}, 8, 2048, 4),
        (24, 512, 2, 5 * 512, 3),  # of 12 rows a micro-batch takes 4, since 5 does not divide
        (16, 1024, 2, 512, 8),
        (16, 64, 2, 1 << 20, 1),
    ],
)
def test_number_of_micro_batches(batch_size, lengths, splits, tokens, wanted):
    assert num_microbatches(batch_size, lengths, splits, tokens) == wanted


def test_number_of_micro_batches_is_bound_under_its_old_name(no_bindings):
    gin.parse_config("utils.serialize_num_microbatches.tokens_per_microbatch_per_replica = 2048")
    assert num_microbatches(128, {"inputs": 512, "targets": 114}, 8) == 4


def test_a_batch_that_does_not_divide_over_the_mesh_is_refused():
    with pytest.raises(ShapeError, match="12 sequences does not divide over the 8 parts"):
        num_microbatches(12, 512, 8, 2048)
