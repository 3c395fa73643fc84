import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import MtfError, ShapeError
from mtf_models.testing import ONE_DEVICE, Placement, check_op

MESHES = [ONE_DEVICE, Placement("all:8", "a:all"), Placement("r:2;c:4", "a:r,b:c")]
A, B = mtf.Dimension("a", 8), mtf.Dimension("b", 16)
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(8, 16)).astype(np.float32)


def on(mesh, array, *dims):
    return mtf.import_tf_tensor(mesh, array, dims)


def compiled_or_not(function, mesh, mode):
    """Calls a function of no arguments; what it captures must not be a value on the mesh."""
    with mesh.calling():
        return tf.function(function, autograph=False)() if mode == "compiled" else function()


def test_gradients_are_zero_where_the_loss_does_not_depend():
    for placement in MESHES:
        mesh = placement.make()
        x, y = on(mesh, X, A, B), on(mesh, X[:, 0], A)
        with tf.GradientTape() as tape:
            tape.watch([x.value, y.value])
            loss = mtf.reduce_sum(x * x)
        dx, dy = mtf.gradients(tape, loss, [x, y])
        np.testing.assert_allclose(dx.numpy(), 2 * X)
        np.testing.assert_array_equal(dy.numpy(), np.zeros(8))
        assert (dx.shape, dy.shape) == (x.shape, y.shape)


def test_a_loss_that_depends_on_nothing_is_refused():
    x = on(mtf.Mesh(), X, A, B)
    with tf.GradientTape() as tape:
        tape.watch(x.value)
        y = x * x
    with pytest.raises(MtfError, match="under"):
        mtf.gradients(tape, mtf.reduce_sum(y), [x])


def test_a_tie_gives_its_gradient_once():
    # The original gave it to both operands.
    mesh = mtf.Mesh()
    x, y = on(mesh, np.float32([1, 2]), ("a", 2)), on(mesh, np.float32([1, 3]), ("a", 2))
    with tf.GradientTape() as tape:
        tape.watch([x.value, y.value])
        loss = mtf.reduce_sum(mtf.maximum(x, y)) + mtf.reduce_max(x * 0)
    dx, dy = mtf.gradients(tape, loss, [x, y])
    np.testing.assert_array_equal(dx.numpy() + dy.numpy(), [1, 1])


class TestCustomGradient:
    def test_is_used(self):
        check_op(
            lambda x, y: mtf.custom_gradient(
                lambda x, y: x * y, lambda x, y, z, dz: [dz * z, mtf.zeros_like(y)], [x, y]
            ),
            {"x": ([A, B], X), "y": ([A, B], X + 1)},
            lambda x, y: x * y,
            gradient_reference=lambda dy, x, y: {"x": dy[0] * x * y, "y": 0 * y},
        )

    def test_gradients_in_another_order_of_dimensions_are_reordered(self):
        x = np.arange(64, dtype=np.float32).reshape(8, 8)
        check_op(
            lambda x: mtf.custom_gradient(
                lambda x: x * 1, lambda x, y, dy: [mtf.transpose(x, "c:8,a:8")], [x]
            ),
            {"x": ("a:8,c:8", x)},
            lambda x: x,
            gradient_reference=lambda dy, x: {"x": x},
        )

    def test_gradients_of_other_dimensions_are_refused(self):
        x = on(mtf.Mesh(), X, A, B)
        with tf.GradientTape() as tape:
            tape.watch(x.value)
            y = mtf.custom_gradient(lambda x: x * 1, lambda x, y, dy: [mtf.reduce_sum(dy)], [x])
        with pytest.raises(ShapeError, match="a=8, b=16"):
            mtf.gradients(tape, y, [x])


def block(x):
    """Two variables, one read in a scope and by index, dropout, and a shape of its own."""
    weights = mtf.get_variable(x.mesh, "weights", [B, ("c", 8)])
    with mtf.variable_scope("inner"):
        table = mtf.get_variable(x.mesh, "table", [("vocab", 8), B])
    ids = mtf.mtf_range(x.mesh, A)
    x = x + mtf.gather(table, ids, table.shape.dims[0])
    x = mtf.dropout(mtf.tanh(x), True, rate=0.4)
    return mtf.relu(mtf.einsum([x, weights]))


def losses_and_gradients(mesh, mode, layers, wrap):
    """Runs `layers` blocks, the last two of them sharing variables."""
    store = mtf.VariableStore(mesh, seed=3)
    back = [("c", 8), B]

    def loss_of(x):
        with mtf.random_stream(mtf.RandomStream((1, 2))):
            for i in range(layers):
                with mtf.variable_scope(f"layer_{min(i, 1)}"):
                    x = mtf.einsum([wrap(x), mtf.get_variable(x.mesh, "back", back)])
        return mtf.reduce_sum(mtf.square(x))

    with store.collecting():
        loss_of(mtf.zeros(mesh.abstract(), [A, B]))

    def step():
        x = on(mesh, X, A, B)
        table = store.read()
        with tf.GradientTape() as tape:
            tape.watch([x.value, *table.values()])
            with store.serving(table):
                loss = loss_of(x)
        sources = {
            "x": x,
            **{n: mtf.Tensor(mesh, store.variables[n].shape, table[n]) for n in table},
        }
        slopes = mtf.gradients(tape, loss, list(sources.values()))
        return {"loss": loss.value, **{n: g.value for n, g in zip(sources, slopes, strict=True)}}

    for variable in store.variables.values():
        variable.held  # noqa: B018  allocated outside of the compiled step
    found = compiled_or_not(step, mesh, mode)
    return {name: mesh.engine.fetch(value) for name, value in found.items()}


def recomputed(x):
    return mtf.recompute_grad(block, [x])


def recomputed_twice(x):
    return mtf.recompute_grad(lambda x: mtf.recompute_grad(block, [x]), [x])


class TestRecomputeGrad:
    def test_square_plus_itself(self):
        x = on(mtf.Mesh(), np.float32([5, 10]), ("a", 2))
        with tf.GradientTape() as tape:
            tape.watch(x.value)
            y = mtf.recompute_grad(lambda x: x * x + x, [x])
            loss = mtf.reduce_sum(y * on(x.mesh, np.float32([2, 3]), ("a", 2)))
        (dx,) = mtf.gradients(tape, loss, [x])
        np.testing.assert_array_equal(y.numpy(), [30, 110])
        np.testing.assert_array_equal(dx.numpy(), [22, 63])

    @pytest.mark.parametrize("mode", ["eager", "compiled"])
    @pytest.mark.parametrize("placement", MESHES, ids=str)
    @pytest.mark.parametrize(
        "wrap", [recomputed, pytest.param(recomputed_twice, marks=pytest.mark.slow)]
    )
    def test_changes_no_number(self, wrap, placement, mode):
        expected = losses_and_gradients(mtf.Mesh(), "eager", 3, block)
        assert all(np.abs(value).max() > 0 for value in expected.values())
        found = losses_and_gradients(placement.make(), mode, 3, wrap)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4, err_msg=name)

    def test_several_results_and_integer_inputs(self):
        def scaled_and_summed(x, ids):
            y = mtf.gather(x, ids, A)
            return [mtf.tanh(y), mtf.reduce_sum(x * x, reduced_dim=B)]

        ids = np.int32([3, 3, 0, 7, -1, 8, 2, 1])
        inputs = {"x": ([A, B], X), "ids": ([("c", 8)], ids)}
        check_op(
            lambda x, ids: mtf.recompute_grad(scaled_and_summed, [x, ids]),
            inputs,
            lambda x, ids: [np.tanh(np.pad(x, [(1, 1), (0, 0)])[ids + 1]), np.sum(x * x, 1)],
        )

    def test_runs_the_function_again_and_keeps_nothing(self):
        x = on(mtf.Mesh(), X, A, B)
        intermediate = []

        def sine_of_exponential(x):
            y = mtf.exp(x)
            intermediate.append(weakref.ref(y.value))
            return mtf.sin(y)

        with tf.GradientTape() as tape:
            tape.watch(x.value)
            loss = mtf.reduce_sum(mtf.recompute_grad(sine_of_exponential, [x]))
        gc.collect()
        assert [value() for value in intermediate] == [None]
        mtf.gradients(tape, loss, [x])
        assert len(intermediate) == 2

    def test_takes_less_memory_in_a_compiled_step(self):
        # Were the second computation merged with the first, both would take the same.
        run = [sys.executable, "-c", MEASURE_PEAKS]
        words = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
        recomputed, kept = map(float, words)
        assert kept > 0.8 * 8 * 8
        assert recomputed < kept / 2


# Prints how many activations are held at most: 8 layers of 8 sines, with recomputation and without.
MEASURE_PEAKS = """
import re
import tensorflow as tf
import mtf_models as mtf

mesh = mtf.Mesh()
x = mtf.ones(mesh, "a:1048576")

def peak(layer):
    def step(value):
        h = first = mtf.Tensor(mesh, x.shape, value)
        with tf.GradientTape() as tape:
            tape.watch(value)
            for _ in range(8):
                h = layer(h)
            loss = mtf.reduce_sum(mtf.square(h))
        return loss.value, mtf.gradients(tape, loss, [first])[0].value

    tf.function(step, autograph=False)(x.value)
    # Not getrusage, which counts the process that started this one too.
    kilobytes = re.search("VmHWM:[^0-9]*([0-9]+)", open("/proc/self/status").read())[1]
    return int(kilobytes) * 1024 / x.size / 4

def sines(h):
    for _ in range(8):
        h = mtf.sin(h)
    return h

start = peak(lambda h: h)
print(peak(lambda h: mtf.recompute_grad(sines, [h])) - start, peak(sines) - start)
"""
