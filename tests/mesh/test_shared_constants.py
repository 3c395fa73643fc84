"""A graph holds a number once, and no longer than it lives."""

import gc
import weakref

import numpy as np
import tensorflow as tf

import mtf_models as mtf


def constants(graph):
    return [op for op in graph.get_operations() if op.type == "Const"]


def traced(function):
    return tf.function(function, autograph=False).get_concrete_function()


def test_uses_of_a_number_share_a_constant():
    x = mtf.import_tf_tensor(mtf.Mesh(), np.ones([2, 3], np.float32), "a:2 b:3")

    def maxima(times):
        y = x
        for _ in range(times):
            y = mtf.maximum(y * 2.0 + 1.0, 0.5)
        return y.value

    once, often = (len(constants(traced(lambda n=n: maxima(n)).graph)) for n in (1, 5))
    assert once == often


def test_numbers_that_differ_do_not():
    def all_of_them():
        x = mtf.import_tf_tensor(mtf.Mesh(), tf.constant([1.0]), "a:1")
        y = mtf.import_tf_tensor(mtf.Mesh(), tf.constant([1]), "a:1")
        both = [mtf.divide(x, 0.0), mtf.divide(x, -0.0), x * 2.0, mtf.to_float(y * 2)]
        return [z.value for z in both]

    np.testing.assert_array_equal(np.ravel(traced(all_of_them)()), [np.inf, -np.inf, 2.0, 2.0])


def test_branches_and_loops_have_their_own():
    x = mtf.import_tf_tensor(mtf.Mesh(), np.array([3.0, 4.0], np.float32), "a:2")

    def run():
        more = x + 2.0
        (end,) = mtf.while_loop(
            lambda y: mtf.less(mtf.reduce_sum(y), 20.0), lambda y: [y + 2.0], [more]
        )
        return (end + 2.0).value

    np.testing.assert_array_equal(traced(run)(), [13.0, 14.0])


def test_a_graph_that_nobody_needs_is_freed():
    concrete = traced(lambda: (mtf.zeros(mtf.Mesh(), "a:2") + 1.5).value)
    graph = weakref.ref(concrete.graph)
    assert graph() is not None
    del concrete
    gc.collect()
    assert graph() is None
