"""Functions of named tensors are compiled once for each shape and dtype of their inputs."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.runtime.compiled import CompiledFunction


@pytest.fixture(params=["", "batch:2"])
def mesh(request):
    return mtf.Mesh(request.param, layout="batch:batch")


def put(mesh, array, shape):
    return mtf.import_tf_tensor(mesh, np.asarray(array, np.float32), shape)


def test_results_keep_their_nesting_and_names(mesh):
    run = CompiledFunction(
        mesh, lambda x: {"twice": x["a"] * 2.0, "sums": [mtf.reduce_sum(x["a"]), x["b"]]}
    )
    a = put(mesh, [[1, 2], [3, 4]], "batch:2 d:2")
    found = run({"a": a, "b": put(mesh, 5, [])})
    assert found["twice"].shape == a.shape
    assert found["twice"].numpy().tolist() == [[2, 4], [6, 8]]
    assert [float(x) for x in found["sums"]] == [10, 5]


def test_one_compilation_for_each_signature(mesh):
    traced = []

    def function(x):
        traced.append(x["a"].shape)
        return x["a"] + 1.0

    run = CompiledFunction(mesh, function)
    small, large = put(mesh, np.zeros(2), "batch:2"), put(mesh, np.ones(4), "batch:4")
    for x in (small, large, small, large):
        assert run({"a": x}).shape == x.shape
    assert run.compilations == len(traced) == 2


def test_names_are_part_of_the_signature():
    mesh = mtf.Mesh()
    run = CompiledFunction(mesh, lambda x: mtf.reduce_sum(x["a"], output_shape="x:2"))
    array = np.array([[1, 2], [3, 4]])
    assert run({"a": put(mesh, array, "x:2 y:2")}).numpy().tolist() == [3, 7]
    assert run({"a": put(mesh, array, "y:2 x:2")}).numpy().tolist() == [4, 6]


def test_the_order_of_inputs_is_not(mesh):
    run = CompiledFunction(mesh, lambda x: x["a"] - x["b"])
    a, b = put(mesh, 3, []), put(mesh, 1, [])
    assert float(run({"a": a, "b": b})) == float(run({"b": b, "a": a})) == 2
    assert run.compilations == 1


def test_errors_of_the_function_come_through_and_are_not_kept(mesh):
    run = CompiledFunction(mesh, lambda x: mtf.add(x["a"], x["a"], output_shape=[]))
    for _ in range(2):
        with pytest.raises(mtf.MtfError):
            run({"a": put(mesh, np.zeros(2), "batch:2")})
    assert run.compilations == 0
