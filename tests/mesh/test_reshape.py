import itertools

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.testing import ONE_DEVICE, Placement, check_op

MESH = mtf.Mesh()


def numbered(shape):
    shape = mtf.Shape(shape)
    return shape, np.arange(shape.size, dtype=np.float64).reshape(
        shape.to_integer_list
    ) / shape.size


def check_between_products(function, shape, reference, placements):
    """Runs a re-layout between operations on elements, where a wrong split could spread to."""

    def between(x):
        return mtf.sin(function(mtf.exp(x)))

    check_op(between, {"x": shape}, lambda x: np.sin(reference(np.exp(x))), placements=placements)


@pytest.mark.parametrize(
    ("before", "after", "mesh", "layout"),
    [
        # A dimension is split in two: the split stays on the outer factor, or goes to the inner.
        ("a:16,d:3", "b:8,c:2,d:3", "all:8", "a:all,b:all"),
        ("a:16,d:3", "b:2,c:8,d:3", "all:8", "a:all,c:all"),
        ("a:32,d:3", "b:4,c:8,d:3", "r:2;c:4", "a:c,b:r,c:c"),
        # Two are merged: the split is on the outer factor, on the inner, on both.
        ("b:8,c:2,d:3", "a:16,d:3", "all:8", "a:all,b:all"),
        ("b:2,c:8,d:3", "a:16,d:3", "all:8", "a:all,c:all"),
        ("b:4,c:8,d:3", "a:32,d:3", "r:2;c:4", "a:c,b:r,c:c"),
        # The split goes, comes, or moves to a dimension that is not taken apart.
        ("a:16,d:8", "b:8,c:2,d:8", "all:8", "a:all"),
        ("a:16,d:8", "b:8,c:2,d:8", "all:8", "b:all"),
        ("a:16,d:8", "b:8,c:2,e:8", "all:8", "a:all,e:all"),
        ("a:16,d:8", "b:8,c:2,e:8", "r:2;c:4", "a:r,d:c,b:c,e:r"),
        # Taken apart and put together at once, across the old bounds.
        ("a:8,b:6,c:4", "d:16,e:12", "all:4", "a:all,d:all"),
        ("a:8,b:6,c:4", "d:16,e:12", "all:4", "c:all,e:all"),
        ("a:4,b:6,c:8", "d:3,e:8,f:8", "r:2;c:4", "a:c,b:r,e:c,f:r"),
        # Dimensions of size 1 come, go and stay.
        ("a:8,o:1,b:4", "p:1,a:8,b:4,q:1", "all:8", "a:all"),
        ("o:1,a:8", "a:8", "all:8", "a:all"),
        ("a:8", "o:1,b:8,p:1", "all:8", "a:all,b:all"),
        ("o:1", "p:1,q:1", "all:8", "a:all"),
        ("o:1,p:1", "", "all:8", ""),
        # Only the names change: the split stays, moves, or two change places.
        ("a:8,b:8", "c:8,d:8", "all:8", "a:all,c:all"),
        ("a:8,b:8", "c:8,d:8", "all:8", "a:all,d:all"),
        ("a:8,b:8,e:3", "c:8,d:8,e:3", "r:2;c:4", "a:r,b:c,c:c,d:r"),
        ("a:8,b:8", "b:8,a:8", "r:2;c:4", "a:r,b:c"),
    ],
)
def test_elements_stay_in_order(before, after, mesh, layout):
    sizes = mtf.Shape(after).to_integer_list
    check_between_products(
        lambda x: mtf.reshape(x, after),
        numbered(before),
        lambda x: x.reshape(sizes),
        [ONE_DEVICE, Placement(mesh, layout)],
    )


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(range(4), 2)))
def test_a_split_moves_between_any_two_of_four_dimensions(source, target):
    # TensorFlow's own exchange is silently wrong between two of which neither is the first.
    names = ["p", "q", "r", "s"]
    third = next(i for i in range(4) if i not in (source, target))
    layout = f"{names[source]}:c,new:c,{names[third]}:r"
    check_between_products(
        lambda x: mtf.rename_dimension(
            mtf.rename_dimension(x, names[source], "old"), names[target], "new"
        ),
        numbered([(name, 4) for name in names]),
        lambda x: x,
        [Placement("r:2;c:4", layout)],
    )


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float64"])
def test_a_split_moves_in_every_dtype(dtype):
    array = (np.random.default_rng(0).integers(0, 200, (3, 8, 8, 2)) > 99).astype(dtype)
    check_op(
        lambda x: mtf.reshape(x, "a:3,d:8,e:8,f:2"),
        {"x": ("a:3,b:8,c:8,f:2", array)},
        lambda x: x,
        placements=[Placement("all:8", "b:all,e:all")],
        differentiate=[],
    )


def test_the_number_of_elements_stays():
    with pytest.raises(ShapeError, match="6 elements.*8"):
        mtf.reshape(mtf.ones(MESH, "a:2,b:3"), "a:8")


def test_a_transposition_keeps_the_dimensions():
    x = mtf.ones(MESH, "a:2,b:3")
    for shape in ("a:2", "b:3,c:2", "a:2,b:3,c:1"):
        with pytest.raises(ShapeError, match="dimensions differ"):
            mtf.transpose(x, shape)


def test_only_present_dimensions_are_renamed():
    with pytest.raises(ShapeError, match="'c'"):
        mtf.rename_dimension(mtf.ones(MESH, "a:2,b:3"), "c", "d")
    with pytest.raises(ShapeError, match="repeats b"):
        mtf.rename_dimension(mtf.ones(MESH, "a:2,b:3"), "a", "b")
