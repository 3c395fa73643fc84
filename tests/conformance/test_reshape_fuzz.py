"""Any reshape on any layout of eight devices: NumPy's numbers, or a refusal."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import mtf_models as mtf
from mtf_models.errors import LayoutError
from mtf_models.testing import admissible, check_op, every, run_op

MESHES = ["all:8", "a:2;b:4", "a:4;b:2"]


@st.composite
def shapes(draw, factors, names):
    """The product of the factors, cut into dimensions anywhere, with dimensions of size 1."""
    cuts = draw(st.lists(st.integers(0, len(factors)), max_size=4).map(sorted))
    bounds = [0, *cuts, len(factors)]
    sizes = [math.prod(factors[a:b]) for a, b in zip(bounds, bounds[1:], strict=False)]
    return mtf.Shape(list(zip(draw(st.permutations(names)), sizes, strict=False)))


@st.composite
def cases(draw):
    """Two shapes of one size and a placement that splits something; one in four does not fit."""
    factors = draw(st.lists(st.sampled_from([2, 2, 4, 8, 8, 3]), min_size=1, max_size=4))
    # A dimension may stay, move to another place, get another size or another name.
    before = draw(shapes(factors, "pqrst"))
    after = draw(shapes(draw(st.permutations(factors)), draw(st.sampled_from(["pqrst", "rstuv"]))))
    candidates = list(every([before, after], draw(st.sampled_from(MESHES))))
    fits = draw(st.sampled_from([True, True, True, False]))
    candidates = [p for p in candidates if admissible(p, [before, after]) == fits]
    assume(candidates)
    return before, after, draw(st.sampled_from(candidates))


def check(before, after, placement):
    note(f"{before} to {after} on {placement}")
    array = np.arange(before.size, dtype=np.float64).reshape(before.to_integer_list)

    def reshape_between_products(x):
        return mtf.reshape(x * 2, after) * 3

    if admissible(placement, [before, after]):
        check_op(
            reshape_between_products,
            {"x": (before, array)},
            lambda x: 6 * x.reshape(after.to_integer_list),
            gradient_reference=lambda dy, x: {"x": 6 * dy[0].reshape(x.shape)},
            placements=[placement],
        )
        return
    for compiled in (False, True):
        with pytest.raises(LayoutError):
            run_op(reshape_between_products, {"x": (before, array)}, placement, compiled=compiled)


@settings(max_examples=40)
@given(cases())
def test_any_reshape_equals_numpy_or_is_refused(case):
    check(*case)


@pytest.mark.nightly
@settings(max_examples=500)
@given(cases())
def test_many_reshapes_equal_numpy_or_are_refused(case):
    check(*case)
