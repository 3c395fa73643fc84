import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.testing import ONE_DEVICE, Placement, check_op

MESH = mtf.Mesh()
SPLIT = [ONE_DEVICE, Placement("all:8", "a:all"), Placement("r:2;c:4", "a:r,b:c")]


def ones(shape, dtype=tf.float32):
    return mtf.ones(MESH, shape, dtype)


class TestBroadcasting:
    @pytest.mark.parametrize(
        ("a", "b", "expected"),
        [
            ("a:2,b:3", "a:2,b:3", "a:2,b:3"),
            ("a:2,b:3", "b:3,a:2", "a:2,b:3"),
            ("b:3", "a:2,b:3,c:4", "a:2,b:3,c:4"),
            ("a:2,b:3,c:4", "a:2,c:4", "a:2,b:3,c:4"),
            ("a:2,b:3", "c:4,a:2", "a:2,b:3,c:4"),
            ("c:4,a:2", "a:2,c:4,b:3", "c:4,a:2,b:3"),
            ("", "a:2", "a:2"),
            ("a:2", "b:3", "a:2,b:3"),
        ],
    )
    def test_the_longer_shape_or_the_first_and_what_it_lacks(self, a, b, expected):
        assert (ones(a) + ones(b)).shape == mtf.Shape(expected)

    def test_an_output_shape_reorders_and_adds(self):
        x, y = ones("a:2"), ones("b:3")
        for output in ("b:3,c:4,a:2", "a:2,b:3"):
            assert mtf.add(x, y, output_shape=output).shape == mtf.Shape(output)
        assert mtf.multiply(x, 3, output_shape="b:3,a:2").shape == mtf.Shape("b:3,a:2")

    @pytest.mark.parametrize("output", ["a:2", "", "a:2,c:4"])
    def test_an_output_shape_lacks_nothing(self, output):
        with pytest.raises(ShapeError, match="b=3"):
            mtf.add(ones("a:2,b:3"), ones("a:2"), output_shape=output)

    def test_one_name_has_one_size(self):
        for function in (mtf.add, mtf.less, lambda x, y: mtf.where(x > 0, x, y)):
            with pytest.raises(ShapeError, match="a=2.*a=3"):
                function(ones("a:2"), ones("a:3"))
        with pytest.raises(ShapeError, match="a=2"):
            mtf.broadcast(ones("a:2"), "a:3")


class TestWhere:
    def test_what_is_not_chosen_does_not_leak(self):
        bad = np.float64([np.nan, np.inf, -np.inf, 1, 2, 3, np.nan, 4])
        chosen = np.isfinite(bad)
        check_op(
            lambda c, x, y: [mtf.where(c, x, y), mtf.where(c, x, 0.0), mtf.where(c, 0.0, y)],
            {
                "c": ("a:8", chosen),
                "x": ("a:8", bad),
                "y": ("a:8", np.where(chosen, np.nan, 5.0)),
            },
            lambda c, x, y: [np.where(c, x, 5), np.where(c, x, 0), np.where(c, 0, 5.0)],
            gradient_reference=lambda dy, c, x, y: {
                "x": c * (dy[0] + dy[1]),
                "y": ~c * (dy[0] + dy[2]),
            },
            placements=SPLIT[:2],
        )

    def test_any_nonzero_condition_is_true(self):
        for condition in (np.float32([0, -1, 0.5]), np.int32([0, -1, 2]), [False, True, True]):
            condition = mtf.import_tf_tensor(MESH, condition, "a:3")
            found = mtf.where(condition, 1, 2)
            assert found.dtype == tf.float32
            np.testing.assert_array_equal(found.numpy(), [2, 1, 1])

    def test_every_part_is_broadcast(self):
        check_op(
            lambda c, x, y: mtf.where(c, x, y, output_shape="b:16,a:8,d:2"),
            {
                "c": ("", np.array(True)),
                "x": ("a:8", np.arange(8.0)),
                "y": ("b:16", np.arange(16.0)),
            },
            lambda c, x, y: np.broadcast_to(x[:, None], (16, 8, 2)),
            gradient_reference=lambda dy, c, x, y: {"x": dy[0].sum((0, 2)), "y": 0 * y},
            placements=SPLIT,
        )


def test_constants_have_the_dtype_that_is_asked_for():
    for dtype in (tf.float32, tf.bfloat16, tf.int32, tf.bool):
        for make, value in [(mtf.zeros, 0), (mtf.ones, 1)]:
            x = make(MESH, "a:3", dtype)
            assert x.dtype == dtype
            np.testing.assert_array_equal(x.numpy().astype(int), [value] * 3)
        assert mtf.zeros_like(mtf.ones(MESH, "a:3", dtype)).dtype == dtype


def test_a_cast_to_the_same_dtype_is_nothing():
    x = ones("a:3")
    assert mtf.cast(x, tf.float32) is x


def test_bfloat16_rounds_to_even():
    x = mtf.import_tf_tensor(MESH, np.float32([1 + 2**-8, 1 + 3 * 2**-8]), "a:2")
    found = mtf.to_float(mtf.to_bfloat16(x)).numpy()
    np.testing.assert_array_equal(found, [1.0, 1.015625])


def test_gelu_is_the_tanh_form():
    x = mtf.import_tf_tensor(MESH, np.float32([-2, -1, 1, 2]), "a:4")
    expected = [-0.045402, -0.158808, 0.841192, 1.954598]
    np.testing.assert_allclose(mtf.gelu(x).numpy(), expected, atol=2e-6)
