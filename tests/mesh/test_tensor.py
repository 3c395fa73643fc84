import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ShapeError

MESHES = [mtf.Mesh(), mtf.Mesh("all:8", "a:all")]
X = np.arange(1, 9, dtype=np.float32)


@pytest.fixture(params=MESHES, ids=str)
def x(request):
    return mtf.import_tf_tensor(request.param, X, "a:8")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 2,
        lambda x: 2 + x,
        lambda x: x - 2,
        lambda x: 2 - x,
        lambda x: x * 2.5,
        lambda x: 2.5 * x,
        lambda x: x / 4,
        lambda x: 4 / x,
        lambda x: x // 3,
        lambda x: 9 // x,
        lambda x: x % 3,
        lambda x: 9 % x,
        lambda x: x**2,
        lambda x: 2**x,
        lambda x: -x,
        lambda x: x < 4,
        lambda x: x <= 4,
        lambda x: 4 < x,
        lambda x: x >= 4,
        lambda x: np.float32(2) * x,
        lambda x: x * np.float64(2),
        lambda x: np.array(2.0) * x,
        lambda x: x + x * x - x / x,
    ],
)
def test_operators_are_those_of_numpy(x, function):
    found, expected = function(x), function(X)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert isinstance(found, mtf.Tensor) and found.shape == x.shape
    assert found.dtype == (tf.bool if expected.dtype == bool else tf.float32)


def test_scalars_of_tensorflow_take_part(x):
    np.testing.assert_array_equal((x * tf.constant(2.0)).numpy(), 2 * X)
    np.testing.assert_array_equal((tf.constant(2.0) * x).numpy(), 2 * X)


@pytest.mark.parametrize("value", [np.ones(8), np.ones((3, 8)), [1.0] * 8, tf.ones(8)], ids=type)
def test_values_without_names_take_no_part(x, value):
    for function in (lambda: x * value, lambda: value * x, lambda: mtf.maximum(x, value)):
        with pytest.raises(ShapeError, match="names"):
            function()


def test_tensorflow_does_not_take_a_named_tensor_for_an_array(x):
    for function in (tf.exp, tf.convert_to_tensor, tf.reduce_sum):
        with pytest.raises(ShapeError, match=r"\.value"):
            function(x)


def test_dtypes_are_not_mixed(x):
    whole = mtf.to_int32(x)
    for function in (mtf.add, mtf.less, mtf.pow, mtf.divide, mtf.equal):
        with pytest.raises(ShapeError, match="float32.*int32.*cast"):
            function(x, whole)
    with pytest.raises(ShapeError, match="float32 and int32"):
        mtf.where(x > 2, x, whole)
    with pytest.raises(ShapeError, match="float32 and int32"):
        mtf.einsum([x, whole])


def test_whole_numbers_stay_whole(x):
    whole = mtf.to_int32(x)
    np.testing.assert_array_equal((whole * 2.0).numpy(), 2 * X)
    assert (whole * 2.0).dtype == tf.int32
    with pytest.raises(ShapeError, match="1.5"):
        _ = whole * 1.5
    for function in (lambda: whole / 2, lambda: 2 / whole, lambda: mtf.reduce_mean(whole)):
        with pytest.raises(ShapeError, match="no whole number"):
            function()


def test_scalars_are_python_numbers(x):
    total = mtf.reduce_sum(x)
    assert (float(total), int(total), bool(total), bool(total > 36)) == (36.0, 36, True, False)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x > 2)


def test_arrays_are_made_of_tensors(x):
    np.testing.assert_array_equal(np.asarray(x), X)
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    assert (x.size, repr(x)) == (8, "mtf.Tensor(Shape[a=8], float32)")
    with pytest.raises(TypeError):
        iter(x)


class TestImport:
    def test_dtype_is_the_values_own_unless_given(self):
        for mesh in MESHES:
            for value in (X, X.astype(np.float64), X.astype(np.int64)):
                assert mtf.import_tf_tensor(mesh, value, "a:8").dtype == value.dtype
                for given in (value, tf.constant(value)):
                    x = mtf.import_tf_tensor(mesh, given, "a:8", dtype=tf.bfloat16)
                    assert x.dtype == tf.bfloat16
            assert mtf.import_tf_tensor(mesh, X.tolist(), "a:8").dtype == tf.float32

    @pytest.mark.parametrize("shape", ["a:7", "a:8,b:1", "b:1,a:8", ""])
    def test_sizes_must_be_equal_in_order(self, shape):
        for mesh in MESHES:
            for value in (X, tf.constant(X), X.tolist()):
                with pytest.raises(ShapeError, match=r"\[8\] cannot be Shape\["):
                    mtf.import_tf_tensor(mesh, value, shape)

    def test_names_are_given_once(self, x):
        with pytest.raises(ShapeError, match="rename_dimension"):
            mtf.import_tf_tensor(x.mesh, x, "b:8")

    def test_in_a_compiled_function(self):
        for mesh in MESHES:
            with mesh.calling():
                found = tf.function(lambda m=mesh: mtf.import_tf_tensor(m, X, "a:8").value)()
            np.testing.assert_array_equal(mesh.engine.fetch(found), X)


def test_an_operation_needs_a_tensor_or_a_mesh():
    for function in (lambda: mtf.add(1, 2), lambda: mtf.einsum([]), lambda: mtf.exp(X)):
        with pytest.raises(ShapeError, match="needs an mtf.Tensor or an mtf.Mesh"):
            function()
