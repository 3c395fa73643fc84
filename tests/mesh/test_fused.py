"""Chains that become one kernel: where they do, how often they compile, and what comes out."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf

X = np.random.default_rng(0).normal(size=(4, 3, 16)).astype(np.float32)
SHAPE = mtf.Shape("a:4 b:3 c:16")


@pytest.fixture
def mesh():
    """One device on which any chain is large enough."""
    mesh = mtf.Mesh()
    mesh.engine.least_fused = 1
    return mesh


def apply(mesh, functions, compiled=True):
    """The values of functions of X, computed one after another in one graph or none."""

    def run(value):
        x = mtf.Tensor(mesh, SHAPE, value)
        return [y.value for f in functions for y in mtf.fused(f.__name__, f, [x])]

    x = mtf.import_tf_tensor(mesh, X, SHAPE).value
    with mesh.calling():
        found = (tf.function(run, autograph=False) if compiled else run)(x)
    return [mesh.engine.fetch(y) for y in found]


def double(x):
    return [x * 2.0]


def sums(x):
    b, c = SHAPE.dims[1:]
    return [
        mtf.reduce_sum(x, reduced_dim=c),
        mtf.reduce_sum(x, reduced_dim=b),
        mtf.reduce_mean(x, reduced_dim=[b, c]),
        mtf.reduce_mean(x),
        mtf.reduce_max(x, reduced_dim=c),
        mtf.reduce_max(x),
        mtf.reduce_sum(mtf.reduce_sum(x, output_shape=[c])),
    ]


def test_reductions_in_a_kernel_are_those_of_numpy(mesh):
    right = [
        X.sum(2),
        X.sum(1),
        X.mean((1, 2)),
        X.mean(),
        X.max(2),
        X.max(),
        X.sum(),
    ]
    for found, wanted in zip(apply(mesh, [sums]), right, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_large_reductions_in_a_kernel_are_those_of_numpy(mesh):
    n, v = mtf.Dimension("n", 4), mtf.Dimension("v", 2**14)
    value = np.random.default_rng(1).integers(-99, 99, (4, 2**14)).astype(np.float32) / 4
    value[1, :] = -np.inf  # Nothing there, as where all is masked.
    value[2, 5:] = -np.inf

    def run(x):
        largest = mtf.argmax(x, v)
        return [mtf.reduce_logsumexp(x, v), mtf.reduce_max(x, reduced_dim=v), largest]

    x = mtf.import_tf_tensor(mesh, value, [n, v])

    def fused(value):
        return [y.value for y in mtf.fused("large", run, [mtf.Tensor(mesh, x.shape, value)])]

    with mesh.calling():
        total, most, largest = (y.numpy() for y in tf.function(fused, autograph=False)(x.value))
    assert mesh.engine.kernels
    np.testing.assert_allclose(total, np.logaddexp.reduce(value, axis=1), rtol=1e-5)
    np.testing.assert_array_equal(most, value.max(1))
    np.testing.assert_array_equal(largest, value.argmax(1))  # There are many equal ones.


def test_a_chain_is_compiled_once_for_each_key_and_shape(mesh):
    first, second, _ = apply(mesh, [double, double, lambda x: [x * 3.0]])
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X)
    assert len(mesh.engine.kernels) == 2
    apply(mesh, [double])
    assert len(mesh.engine.kernels) == 2


def test_small_chains_are_traced_once_and_not_compiled():
    small, traces = mtf.Mesh(), []

    def counted(x):
        traces.append(x.shape)
        return [x * 2.0]

    first, second = apply(small, [counted, counted])
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X)
    assert traces == [SHAPE]
    (kernel,) = small.engine.kernels.values()
    concrete = kernel.run.get_concrete_function(tf.TensorSpec(X.shape))
    assert not concrete.function_def.attr["_XlaMustCompile"].b


def test_small_chains_in_a_kernel_are_part_of_it():
    small = mtf.Mesh()

    def run(value):
        (y,) = mtf.fused("double", double, [mtf.Tensor(small, SHAPE, value)])
        return [y.value]

    with small.calling():
        (found,) = small.engine.kernel(run)(tf.constant(X))
    np.testing.assert_array_equal(found, 2 * X)
    assert not small.engine.kernels


def test_nothing_is_fused_eagerly(mesh):
    np.testing.assert_array_equal(apply(mesh, [double], compiled=False)[0], 2 * X)
    assert not mesh.engine.kernels


def test_a_mesh_gives_the_same_from_single_operations():
    many = mtf.Mesh("all:4", "a:all")
    for found, wanted in zip(apply(many, [sums]), apply(mtf.Mesh(), [sums]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
