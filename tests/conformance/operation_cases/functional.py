"""Loops and gradients."""

import numpy as np

import mtf_models as mtf
from operation_cases.case import (
    A,
    B,
    Case,
    case,
    normal,
)


def cube_with_slope_of_square(x):
    return mtf.custom_gradient(
        lambda x: x * x * x, lambda x, y, dy: [mtf.transpose(dy * x, [B, A])], [x]
    )


def scaled_and_its_length(x, y):
    scaled = x * y
    return [scaled, mtf.sqrt(mtf.reduce_sum(mtf.square(scaled), output_shape=[A]))]


CASES = [
    Case(
        "custom_gradient",
        cube_with_slope_of_square,
        {"x": normal(A, B)},
        lambda x: x**3,
        {"gradient_reference": lambda dy, x: {"x": dy[0] * x}},
    ),
    case(
        "fused",
        lambda x, y: mtf.fused("scaled", scaled_and_its_length, [x, y]),
        lambda x, y: [x * y, np.sqrt(((x * y) ** 2).sum(1))],
        x=normal(A, B),
        y=normal(B),
    ),
    case(
        "recompute_grad",
        lambda x, y: mtf.recompute_grad(lambda x, y: mtf.tanh(x * y) * y, [x, y]),
        lambda x, y: np.tanh(x * y) * y,
        x=normal(A, B),
        y=normal(B),
    ),
    case(
        "in_blocks",
        lambda x, y: mtf.in_blocks(lambda _, x, y: [mtf.tanh(x * y) * y], [x], [y], x.shape[1], 8),
        lambda x, y: [np.tanh(x * y[:, None]) * y[:, None]],
        x=normal(A, B),
        y=normal(A),
    ),
    Case(
        "while_loop",
        lambda x, n: mtf.while_loop(lambda x, n: n < 5, lambda x, n: [mtf.cos(x), n + 1], [x, n]),
        {"x": normal(A, B), "n": ([], np.int32(2))},
        lambda x, n: [np.cos(np.cos(np.cos(x))), np.int32(5)],
        {"differentiate": []},
    ),
    Case(
        "while_loop",
        lambda x, n: mtf.while_loop(
            lambda x, n: n < 4,
            lambda x, n: [x * 0.5, n + 1, x * mtf.cast(n, x.dtype), mtf.reduce_sum(x)],
            [x, n],
            num_loop_vars=1,
            has_accumulators=True,
        ),
        {"x": normal(A, B), "n": ([], np.int32(0))},
        lambda x, n: [
            x / 16,
            np.int32(4),
            sum(x * 0.5**i * i for i in range(4)),
            sum(x.sum() * 0.5**i for i in range(4)),
        ],
        {"differentiate": []},
    ),
]
