import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.testing import ONE_DEVICE, Placement, check_op, run_op

SPLIT = [ONE_DEVICE, Placement("all:8", "a:all"), Placement("r:2;c:4", "a:r,b:c")]
TABLE = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)


def powers(x, limit, **options):
    """Multiplies a state by a matrix until its count is reached; the state is split both ways."""

    def body(y, matrix, n):
        back = mtf.einsum([y, matrix], output_shape="a:8,c:8")
        return [mtf.rename_dimension(back, "c", "b"), matrix, n + 1]

    matrix = mtf.rename_dimension(x, "a", "c")
    start = [x, matrix, mtf.constant(x.mesh, 0, dtype=limit.dtype)]
    y, _, n = mtf.while_loop(lambda y, matrix, n: n < limit, body, start, **options)
    return [y, n]


@pytest.mark.parametrize(("limit", "maximum", "rounds"), [(3, None, 3), (0, None, 0), (9, 2, 2)])
def test_split_state_and_a_condition_on_data(limit, maximum, rounds):
    def reference(x, limit):
        y = x
        for _ in range(rounds):
            y = y @ x.T
        return [y, np.int32(rounds)]

    check_op(
        lambda x, limit: powers(x, limit, maximum_iterations=maximum),
        {"x": ("a:8,b:8", TABLE), "limit": ("", np.int32(limit))},
        reference,
        placements=SPLIT,
        differentiate=[],
    )


def transposing(x):
    step = mtf.transpose(x, "b:8,a:8")
    count = mtf.constant(x.mesh, 0)
    return mtf.while_loop(lambda x, n: n < 1, lambda x, n: [step, n + 1], [x, count])[0]


def test_state_in_another_order_of_dimensions_is_reordered():
    check_op(
        transposing, {"x": ("a:8,b:8", TABLE)}, lambda x: x, placements=SPLIT, differentiate=[]
    )


def test_state_of_other_dimensions_is_refused():
    def body(x):
        return [mtf.rename_dimension(x, "a", "c")]

    for compiled in (False, True):
        with pytest.raises(ShapeError, match="a=8, b=8.*c=8, b=8"):
            run_op(
                lambda x: mtf.while_loop(lambda x: mtf.reduce_sum(x) < 1e9, body, [x]),
                {"x": ("a:8,b:8", TABLE)},
                ONE_DEVICE,
                compiled=compiled,
            )
