"""Core operations on drawn shapes and layouts of eight devices: NumPy's numbers, or a refusal."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import mtf_models as mtf
from mtf_models.errors import LayoutError
from mtf_models.testing import MESHES, ONE_DEVICE, admissible, check_op, every, run_op

SIZES = [1, 2, 3, 8, 16]


class Drawn(NamedTuple):
    """A call, its operands' shapes, and what NumPy says."""

    call: Any
    shapes: list
    reference: Any


@st.composite
def shapes(draw, least=1, most=4, names="abcd"):
    count = draw(st.integers(least, most))
    order = draw(st.permutations(names))[:count]
    return mtf.Shape([(name, draw(st.sampled_from(SIZES))) for name in order])


@st.composite
def shape_and_dim(draw, least=1):
    shape = draw(shapes(least))
    axis = draw(st.integers(0, shape.ndims - 1))
    return shape, axis, shape.dims[axis]


def binary(draw):
    names = {"add": np.add, "sub": np.subtract, "maximum": np.maximum, "less": np.less}
    name, ufunc = draw(st.sampled_from(sorted(names.items())))
    first = draw(shapes())
    dims = [d for d in first if draw(st.booleans())]
    other = draw(st.sampled_from(SIZES))
    dims += [mtf.Dimension("e", other)] if draw(st.booleans()) else []
    second = mtf.Shape(draw(st.permutations(dims)))
    whole = first + [d for d in second if d not in first]

    def spread(x, shape):
        order = [shape.axis(d) for d in whole if d in shape]
        return x.transpose(order).reshape([d.size if d in shape else 1 for d in whole])

    return Drawn(
        lambda x, y: getattr(mtf, name)(x, y, output_shape=whole),
        [first, second],
        lambda x, y: np.broadcast_to(
            ufunc(spread(x, first), spread(y, second)), whole.to_integer_list
        ),
    )


def reduction(draw):
    shape = draw(shapes())
    name = draw(st.sampled_from(["sum", "mean", "max", "min"]))
    kept = mtf.Shape(draw(st.permutations([d for d in shape if draw(st.booleans())])))

    def reference(x):
        axes = tuple(i for i, d in enumerate(shape) if d not in kept)
        left = [d for d in shape if d in kept]
        return getattr(np, name)(x, axes).transpose([left.index(d) for d in kept])

    function = getattr(mtf, f"reduce_{name}")
    return Drawn(lambda x: function(x, output_shape=kept), [shape], reference)


def cumulative(draw):
    shape, axis, dim = draw(shape_and_dim())
    exclusive = draw(st.booleans())
    return Drawn(
        lambda x: mtf.cumsum(x, dim, exclusive),
        [shape],
        lambda x: np.cumsum(x, axis) - x * exclusive,
    )


def moved(draw):
    shape, axis, dim = draw(shape_and_dim())
    offset, wrap = draw(st.integers(-20, 20)), draw(st.booleans())

    def reference(x):
        if wrap:
            return np.roll(x, offset, axis)
        step = np.clip(offset, -dim.size, dim.size)
        margins = [(dim.size, dim.size) if i == axis else (0, 0) for i in range(x.ndim)]
        return np.take(np.pad(x, margins), np.arange(dim.size) + dim.size - step, axis)

    return Drawn(lambda x: mtf.shift(x, offset, dim, wrap), [shape], reference)


def joined(draw):
    shape, axis, dim = draw(shape_and_dim())
    more = [draw(st.sampled_from(SIZES)) for _ in range(draw(st.integers(0, 2)))]
    parts = [shape, *(shape.resize_dimension(dim.name, size) for size in more)]
    return Drawn(lambda *xs: mtf.concat(xs, dim.name), parts, lambda *xs: np.concatenate(xs, axis))


def cut(draw):
    shape, axis, dim = draw(shape_and_dim())
    begin = draw(st.integers(0, dim.size - 1))
    size = draw(st.integers(1, dim.size - begin))
    return Drawn(
        lambda x: mtf.slice(x, begin, size, dim.name),
        [shape],
        lambda x: np.take(x, np.arange(begin, begin + size), axis),
    )


def padded(draw):
    shape, axis, dim = draw(shape_and_dim())
    ends = draw(st.sampled_from([(0, 0), (1, 0), (0, 8), (3, 5), (4, 4)]))
    return Drawn(
        lambda x: mtf.pad(x, ends, dim.name),
        [shape],
        lambda x: np.pad(x, [ends if i == axis else (0, 0) for i in range(x.ndim)]),
    )


def largest(draw):
    shape, axis, dim = draw(shape_and_dim())
    k = draw(st.integers(1, dim.size))

    def reference(x):
        x = np.moveaxis(x, axis, -1)
        at = np.argsort(-x, -1, kind="stable")[..., :k]
        return [np.take_along_axis(x, at, -1), at.astype(np.int32)]

    return Drawn(lambda x: mtf.top_k(x, dim, ("k", k)), [shape], reference)


OPERATIONS = (binary, reduction, cumulative, moved, joined, cut, padded, largest)


@st.composite
def cases(draw):
    """A call and a placement that splits something; in one of four cases it does not fit."""
    drawn = draw(st.sampled_from(OPERATIONS))(draw)
    inputs = values(drawn)
    found = run_op(drawn.call, inputs, ONE_DEVICE).shapes
    known = [*drawn.shapes, *found]
    candidates = list(every(drawn.shapes, draw(st.sampled_from(MESHES))))
    fits = draw(st.sampled_from([True, True, True, False]))
    candidates = [p for p in candidates if admissible(p, known) == fits]
    assume(candidates)
    return drawn, draw(st.sampled_from(candidates)), known


def values(drawn):
    random = np.random.default_rng(0)
    return {
        f"x{i}": (shape, random.normal(size=shape.to_integer_list))
        for i, shape in enumerate(drawn.shapes)
    }


def check(drawn, placement, known):
    note(f"{drawn.shapes} to {known[len(drawn.shapes) :]} on {placement}")
    if admissible(placement, known):
        check_op(drawn.call, values(drawn), drawn.reference, placements=[placement])
        return
    for compiled in (False, True):
        with pytest.raises(LayoutError):
            run_op(drawn.call, values(drawn), placement, compiled=compiled)


@settings(max_examples=30)
@given(cases())
def test_any_core_operation_equals_numpy_or_is_refused(case):
    check(*case)


@pytest.mark.nightly
@settings(max_examples=400)
@given(cases())
def test_many_core_operations_equal_numpy_or_are_refused(case):
    check(*case)
