import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.testing import ONE_DEVICE, Placement, check_op

B, C = mtf.Dimension("b", 8), mtf.Dimension("c", 16)
X = np.random.default_rng(0).normal(size=(8, 16))
SPLIT = [
    ONE_DEVICE,
    Placement("all:8", "c:all"),
    Placement("all:8", "b:all"),
    Placement("r:2;c:4", "b:r,c:c"),
]


def log_sum_exp(x, extra):
    peak = np.maximum(x.max(1), extra)
    return peak + np.log(np.exp(x - peak[:, None]).sum(1) + np.exp(extra - peak))


class TestShapes:
    X = mtf.ones(mtf.Mesh(), "a:2,b:3,c:4")

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ({}, ""),
            ({"reduced_dim": mtf.Dimension("b", 3)}, "a:2,c:4"),
            ({"reduced_dim": [mtf.Dimension("b", 3), mtf.Dimension("a", 2)]}, "c:4"),
            ({"reduced_dim": []}, "a:2,b:3,c:4"),
            ({"output_shape": "c:4,a:2"}, "c:4,a:2"),
            ({"output_shape": []}, ""),
            ({"output_shape": "c:4,a:2", "reduced_dim": mtf.Dimension("b", 3)}, "c:4,a:2"),
        ],
    )
    def test_what_stays(self, arguments, expected):
        found = mtf.reduce_sum(self.X, **arguments)
        assert found.shape == mtf.Shape(expected)
        value = 24 // found.shape.size
        np.testing.assert_array_equal(found.numpy(), np.full(found.shape.to_integer_list, value))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"reduced_dim": mtf.Dimension("b", 4)}, "no b=4"),
            ({"output_shape": "a:2,d:5"}, "no d=5"),
            ({"output_shape": "a:2", "reduced_dim": mtf.Dimension("a", 2)}, "both keep"),
        ],
    )
    def test_contradictions_are_refused(self, arguments, message):
        with pytest.raises(ShapeError, match=message):
            mtf.reduce_max(self.X, **arguments)

    def test_arguments_have_names(self):
        with pytest.raises(TypeError):
            mtf.reduce_sum(self.X, mtf.Shape("a:2"))


class TestSoftmax:
    @pytest.mark.parametrize("extra", [0.0, -3.0, 5.0])
    def test_an_extra_logit_joins_the_sum_only(self, extra):
        def normalized(x):
            logs = x - log_sum_exp(x, extra)[:, None]
            return [np.exp(logs), logs, log_sum_exp(x, extra)]

        check_op(
            lambda x: [
                mtf.softmax(x, C, extra_logit=extra),
                mtf.log_softmax(x, C, extra_logit=extra),
                mtf.reduce_logsumexp(x, C, extra_logit=extra),
            ],
            {"x": ([B, C], X)},
            normalized,
            placements=[SPLIT[0], SPLIT[-1]],
        )

    def test_an_extra_logit_may_be_a_tensor(self):
        check_op(
            lambda x, extra: mtf.reduce_logsumexp(x, C, extra_logit=extra),
            {"x": ([B, C], X), "extra": ([B], X[:, 0] + 1)},
            log_sum_exp,
            placements=SPLIT,
        )

    def test_nothing_overflows(self):
        x = X * 1e4
        check_op(
            lambda x: [mtf.log_softmax(x, C), mtf.softmax(x, C, extra_logit=1e5)],
            {"x": ([B, C], x)},
            lambda x: [x - log_sum_exp(x, -np.inf)[:, None], np.zeros_like(x)],
            placements=SPLIT[:2],
            gradient_reference=lambda dy, x: {
                "x": dy[0] - (x == x.max(1)[:, None]) * dy[0].sum(1)[:, None]
            },
        )

    def test_masked_logits_have_no_weight_and_no_gradient(self):
        # Row 0 is masked whole: with an extra logit it attends to nothing.
        x = np.where(np.arange(8)[:, None] * 2 > np.arange(16), X, -np.inf)

        def slope(dy, x):
            weights = np.exp(x - log_sum_exp(x, 0.0)[:, None])
            return {"x": weights * (dy[0] - (weights * dy[0]).sum(1)[:, None])}

        check_op(
            lambda x: mtf.softmax(x, C, extra_logit=0.0),
            {"x": ([B, C], x)},
            lambda x: np.exp(x - log_sum_exp(x, 0.0)[:, None]),
            gradient_reference=slope,
            placements=SPLIT,
        )

    def test_six_dimensions(self):
        """TensorFlow's own takes five on CPUs; members and groups of heads come to more."""
        dims = [mtf.Dimension(name, 2) for name in "uvwx"]
        x = np.stack([X * n for n in range(16)]).reshape([2, 2, 2, 2, 8, 16])
        check_op(
            lambda x: mtf.softmax(x, C),
            {"x": ([*dims, B, C], x)},
            lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True),
            placements=SPLIT[:2],
        )

    def test_an_absent_dimension_is_named(self):
        x = mtf.ones(mtf.Mesh(), [B])
        for function in (mtf.softmax, mtf.log_softmax, mtf.reduce_logsumexp, mtf.argmax, mtf.top_1):
            with pytest.raises(ShapeError, match="c=16"):
                function(x, C)


def test_the_first_of_equal_elements_is_the_largest():
    check_op(
        lambda x: mtf.argmax(x, C),
        {"x": ([B, C], np.ones((8, 16)))},
        lambda x: np.zeros(8, np.int32),
        placements=SPLIT,
    )
