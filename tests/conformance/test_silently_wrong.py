"""What DTensor gets wrong in silence is right in the language built on it.

Each test first shows the fault, where one still can: when TensorFlow mends it, the test says so.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.experimental import dtensor

import mtf_models as mtf
from mtf_models.errors import LayoutError
from mtf_models.testing import ONE_DEVICE, Placement, check_op, run_op

RANDOM = np.random.default_rng(0)
EIGHT = mtf.Mesh("all:8", "a:all,b:all,rows:all")
SPLIT = dtensor.Layout(["all", dtensor.UNSHARDED], EIGHT.engine._mesh)


def normal(shape):
    shape = mtf.Shape(shape)
    return shape, RANDOM.normal(size=shape.to_integer_list)


def test_einsum_of_lone_dimensions_on_one_axis():
    check_op(
        lambda x, y: mtf.einsum([x, y], output_shape="c:4"),
        {"x": normal("a:8,c:4"), "y": normal("b:16,c:4")},
        lambda x, y: np.einsum("ac,bc->c", x, y),
        placements=[Placement("all:8", "a:all,b:all"), Placement("r:2;c:4", "a:c,b:c,c:r")],
    )


def test_einsum_of_one_label_over_different_axes():
    # A label is a dimension, which has one axis: renaming re-lays the operand.
    check_op(
        lambda x, y: mtf.einsum([x, mtf.rename_dimension(y, "b", "a")], output_shape="c:4,d:4"),
        {"x": normal("a:8,c:4"), "y": normal("b:8,d:4")},
        lambda x, y: x.T @ y,
        placements=[
            Placement("r:2;c:4", "a:r,b:c"),
            Placement("r:2;c:4", "a:c,b:r,c:r"),
        ],
    )


def test_state_updated_in_a_step():
    store = mtf.VariableStore(EIGHT)
    with store.eager():
        mtf.get_variable(EIGHT, "count", [], initializer=lambda sizes, seed: tf.zeros(sizes))
    count, plain = store.variables["count"], tf.Variable(0.0)

    @tf.function(autograph=False)
    def step(x):
        count.assign(count.value + mtf.Tensor(EIGHT, mtf.Shape(), x))
        plain.assign_add(1.0)

    for _ in range(3):
        with EIGHT.calling():
            step(mtf.ones(EIGHT, []).value)
    assert plain.numpy() != 3, "TensorFlow now updates a plain variable once a step"
    assert count.numpy() == 3


@pytest.mark.parametrize("label", [-1, 8, 100])
def test_cross_entropy_of_a_label_out_of_range(label):
    # The original's: nothing is subtracted from the logarithm of the sum. It is never 0.
    vocab = mtf.Dimension("vocab", 8)
    labels = np.int32([0, 3, label, 7])

    def cross_entropy(logits, labels):
        picked = mtf.einsum([logits, mtf.one_hot(labels, vocab)], reduced_dims=[vocab])
        return mtf.reduce_logsumexp(logits, vocab) - picked

    def reference(logits, labels):
        inside = (labels >= 0) & (labels < 8)
        picked = np.where(inside, logits[np.arange(4), labels % 8], 0)
        return np.log(np.exp(logits).sum(1)) - picked

    check_op(
        cross_entropy,
        {
            "logits": ([("batch", 4), vocab], normal("batch:4,vocab:8")[1]),
            "labels": ("batch:4", labels),
        },
        reference,
        placements=[ONE_DEVICE, Placement("all:8", "vocab:all"), Placement("all:4", "batch:all")],
    )


def test_recomputation_reaches_variables():
    def gradient(recompute):
        mesh = mtf.Mesh("all:8", "a:all")
        store = mtf.VariableStore(mesh)

        def layer(x):
            return mtf.tanh(mtf.einsum([x, mtf.get_variable(mesh, "w", "a:8,b:8")]))

        with store.collecting():
            layer(mtf.ones(mesh, "a:8"))
        x, table = mtf.ones(mesh, "a:8"), store.read()
        with tf.GradientTape() as tape, store.serving(table):
            tape.watch(table["w"])
            y = mtf.recompute_grad(layer, [x]) if recompute else layer(x)
            loss = mtf.reduce_sum(y)
        return mtf.gradients(tape, loss, [mtf.Tensor(mesh, mtf.Shape("a:8,b:8"), table["w"])])[0]

    found, expected = gradient(True).numpy(), gradient(False).numpy()
    assert np.abs(expected).min() > 0
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_random_numbers_of_a_split_tensor():
    @tf.function(autograph=False)
    def straight_to_the_split_layout():
        return dtensor.relayout(tf.random.stateless_uniform([8, 4], [1, 2]), SPLIT)

    def drawn(x):
        with mtf.random_stream(mtf.RandomStream((1, 2))):
            return mtf.random_uniform(x.mesh, "rows:8,b:4")

    with EIGHT.calling():
        local = EIGHT.engine.fetch(straight_to_the_split_layout())
    whole = tf.random.stateless_uniform([8, 4], [1, 2]).numpy()
    assert not np.array_equal(local, whole), "TensorFlow now draws one device's numbers"
    rows = {"x": ("rows:8", np.zeros(8))}
    expected = run_op(drawn, rows, ONE_DEVICE).values[0]
    for compiled in (False, True):
        found = run_op(drawn, rows, Placement("all:8", "rows:all"), compiled=compiled).values[0]
        np.testing.assert_array_equal(found, expected)


def test_replicas_cannot_differ():
    # `pack` takes different values for what should be replicas; here one value is cut.
    mesh = mtf.Mesh("r:2;c:4", "a:c")
    x = mtf.import_tf_tensor(mesh, np.arange(8), "a:8")
    parts = [part.numpy().tolist() for part in dtensor.unpack(x.value)]
    assert parts == 2 * [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_split_that_moves_between_two_inner_dimensions():
    mesh = mtf.Mesh("all:8", "b:all,d:all")
    array = np.arange(2 * 8 * 8 * 3, dtype=np.float32).reshape(2, 8, 8, 3)
    x = mtf.import_tf_tensor(mesh, array, "a:2,b:8,c:8,e:3")
    with mesh.calling():
        exchanged = mesh.engine.pin(x.value, (None, None, "all", None))
    assert not np.array_equal(mesh.engine.fetch(exchanged), array), (
        "TensorFlow now exchanges rightly"
    )
    np.testing.assert_array_equal(mtf.reshape(x, "a:2,f:8,d:8,e:3").numpy(), array)


def test_two_dimensions_of_one_tensor_on_one_axis():
    with pytest.raises(LayoutError, match="a and b .* axis all"):
        mtf.einsum([mtf.ones(EIGHT, "a:8"), mtf.ones(EIGHT, "b:8")])
