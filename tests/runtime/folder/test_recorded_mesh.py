import pytest

from mtf_models.runtime.folder.recorded_mesh import shrink


@pytest.mark.parametrize(
    ("axes", "count", "expected"),
    [
        ({"x": 128, "y": 2}, 1, {"x": 1, "y": 1}),
        ({"x": 128, "y": 2}, 4, {"x": 2, "y": 2}),
        ({"x": 128, "y": 2}, 8, {"x": 4, "y": 2}),
        ({"x": 128, "y": 2}, 256, {"x": 128, "y": 2}),
        ({"x": 6, "y": 3}, 8, {"x": 2, "y": 3}),
        ({"x": 3}, 2, {"x": 1}),
        ({"x": 4, "y": 4}, 8, {"x": 4, "y": 2}),
        ({}, 4, {}),
    ],
)
def test_axes_shrink_to_divisors(axes, count, expected):
    assert shrink(axes, count) == expected
