"""The harness finds what is wrong: a value, a gradient, a layout, on one layout only."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError, ShapeError
from mtf_models.mesh.tensor import Tensor
from mtf_models.testing import ONE_DEVICE, Placement, admissible, check_op, covering, every, run_op

X = ("a:8,b:16", np.linspace(-1, 1, 128).reshape(8, 16))
SPLIT = [ONE_DEVICE, Placement("all:8", "a:all")]


def test_right_values_and_gradients_pass():
    check_op(mtf.sin, {"x": X}, np.sin, placements=SPLIT)
    check_op(mtf.sin, {"x": X}, placements=SPLIT)


def test_a_wrong_value_is_told_with_its_place():
    with pytest.raises(AssertionError) as error:
        check_op(mtf.sin, {"x": X}, lambda x: np.sin(x) + (x == 1), placements=SPLIT)
    first, *_, last = str(error.value).splitlines()
    assert first.startswith("one device, eager: result 0 differs at 1 of 128; at (7, 15) 0.84")
    assert last.startswith('mesh "all:8", layout "a:all", compiled:')


def test_a_wrong_gradient_is_told():
    with pytest.raises(AssertionError, match="gradient of x differs at 128 of 128"):
        check_op(lambda x: x * mtf.stop_gradient(x), {"x": X}, np.square, placements=SPLIT)


def test_a_wrong_shape_is_told():
    with pytest.raises(AssertionError, match=r"shape \[8, 16\] instead of \[16, 8\]"):
        check_op(mtf.sin, {"x": X}, lambda x: np.sin(x).T, placements=SPLIT, differentiate=[])


def test_a_result_on_some_layouts_only_is_told():
    def wrong_where_split(x):
        return x * x.mesh.splits(x.shape.dims[0])

    with pytest.raises(AssertionError) as error:
        check_op(wrong_where_split, {"x": X}, placements=SPLIT)
    assert "one device" not in str(error.value)
    assert "all:8" in str(error.value)


def test_a_tensor_that_does_not_lie_by_the_rules_is_told():
    def left_whole(x):
        return Tensor(x.mesh, x.shape, x.mesh.pin(x.value, x.shape, x.shape.dims))

    with pytest.raises(AssertionError, match="lies as"):
        run_op(left_whole, {"x": X}, SPLIT[1])


def test_an_error_says_where_it_happened():
    with pytest.raises(ZeroDivisionError) as error:
        check_op(lambda x: x * (1 / (8 - x.mesh.size)), {"x": X}, placements=SPLIT)
    assert error.value.__notes__ == ['On mesh "all:8", layout "a:all", eager.']


def test_another_number_of_results_is_told():
    with pytest.raises(AssertionError, match="has 1 results; 2 are expected"):
        check_op(mtf.sin, {"x": X}, lambda x: [np.sin(x), x], placements=SPLIT)


def test_a_reference_may_give_numbers():
    check_op(mtf.reduce_sum, {"x": X}, lambda x: float(x.sum()), placements=SPLIT, modes=["eager"])


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(ConfigError, match="no mode 'compile'"):
        check_op(mtf.sin, {"x": X}, modes=["compile"])
    with pytest.raises(ConfigError, match="No input is called 'y'; known: x"):
        check_op(mtf.sin, {"x": X}, differentiate=["y"])
    with pytest.raises(ShapeError, match="returned EagerTensor; return an mtf.Tensor"):
        check_op(lambda x: x.value, {"x": X})


class TestPlacements:
    """The layouts that operations are tried on."""

    SHAPES = ("p:8,q:4", "q:4,r:3")

    def test_every_placement_divides(self):
        found = [placement.layout for placement in every(self.SHAPES, "a:2;b:8")]
        assert sorted(found) == ["p:a", "p:a,q:a", "p:b", "p:b,q:a", "q:a"]
        assert not admissible(
            next(p for p in every(self.SHAPES, "a:2") if "," in p.layout), self.SHAPES
        )

    def test_a_cover_splits_each_dimension_over_each_axis_and_all_pairs(self):
        found = covering([*self.SHAPES, "p:8,r:3"], meshes=["a:2;b:4"])
        rules = [dict(mtf.LayoutRules(placement.layout).pairs) for placement in found]
        assert rules[0] == {}
        assert {(d, a) for rule in rules for d, a in rule.items()} == {
            *(("p", "a"), ("p", "b"), ("q", "a"), ("q", "b"))
        }
        assert any(len(rule) == 2 for rule in rules)
        assert all(admissible(placement, self.SHAPES) for placement in found)
