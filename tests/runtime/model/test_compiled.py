"""Functions of named tensors are compiled once for each shape and dtype of their inputs."""

import time

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.runtime.model.compiled import CompiledFunction


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


class TestOtherValues:
    """Other values in the same shapes run what was made for the first: they are no constants."""

    @pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.float64])
    def test_the_second_call_computes_only(self, dtype):
        mesh = mtf.Mesh("batch:2", layout="batch:batch")

        def deep(x):
            """Much to compile, and next to nothing to compute."""
            found = {name: mtf.to_float(y) for name, y in x.items()}
            for _ in range(40):
                found = {name: mtf.tanh(y) + 1.0 for name, y in found.items()}
            return found

        run = CompiledFunction(mesh, deep)
        shapes = {"a": [], "b": "batch:2 x:3", "c": "x:19"}
        seconds = []
        for i in (-3, 0, 2):
            arrays = {n: np.full(mtf.Shape(s).to_integer_list, i, dtype) for n, s in shapes.items()}
            inputs = {n: mtf.import_tf_tensor(mesh, arrays[n], s) for n, s in shapes.items()}
            # Of this process alone: what else the machine does is not counted.
            begin = time.process_time()
            found = run(inputs)
            seconds.append(time.process_time() - begin)
            right = i
            for _ in range(40):
                right = np.tanh(right) + 1.0
            for y in found.values():
                np.testing.assert_allclose(y, np.full_like(y, right), rtol=1e-5)
        assert run.compilations == 1
        # To expand the graph for a mesh again takes about half as long as the first time.
        assert min(seconds[1:]) < seconds[0] / 8

    @pytest.mark.parametrize(
        "value", [2**31 - 1, -(2**31), 2**62 + 1, -(2**63), np.nan, -0.0, 1e-42]
    )
    def test_every_bit_arrives(self, mesh, value):
        dtypes = [np.float32] if isinstance(value, float) else [np.int64]
        dtypes += [np.int32] if isinstance(value, int) and abs(value + 0.5) < 2**31 else []
        for dtype in dtypes:
            array = np.full(2, value, dtype)
            x = mtf.import_tf_tensor(mesh, array, "x:2")
            run = CompiledFunction(mesh, lambda x: x)
            assert run({"a": x})["a"].numpy().tobytes() == array.tobytes()

    def test_conditions(self, mesh):
        run = CompiledFunction(mesh, lambda x: mtf.where(x["a"], x["b"], -x["b"]))
        b = put(mesh, [1, 2], "x:2")
        for flags, right in (([True, False], [1, -2]), ([False, True], [-1, 2])):
            a = mtf.import_tf_tensor(mesh, np.array(flags), "x:2")
            assert run({"a": a, "b": b}).numpy().tolist() == right
