"""Summing dimensions out, and softmax."""

import numpy as np

import mtf_models as mtf
from operation_cases.case import (
    A,
    B,
    C,
    D,
    booleans,
    case,
    logsumexp,
    normal,
)


def log_softmax(x, extra):
    extra = np.broadcast_to(extra, (8, 3))
    total = logsumexp(np.concatenate([x, extra[:, None]], 1), 1)
    return x - total[:, None]


CASES = [
    *[
        case(
            f"reduce_{name}",
            lambda x, f=function: [f(x, reduced_dim=A), f(x, output_shape=[D, A])],
            lambda x, f=ufunc: [f(x, 0), f(x, 1).T],
            x=normal(A, B, D),
        )
        for name, function, ufunc in [
            ("sum", mtf.reduce_sum, np.sum),
            ("mean", mtf.reduce_mean, np.mean),
            ("max", mtf.reduce_max, np.max),
            ("min", mtf.reduce_min, np.min),
        ]
    ],
    case(
        "reduce_sum",
        lambda x: [mtf.reduce_sum(x), mtf.reduce_sum(x, reduced_dim=[A, B])],
        lambda x: [np.sum(x), np.sum(x, (0, 1))],
        x=normal(A, B, D),
    ),
    *[
        case(
            f"reduce_{name}",
            lambda x, f=function: [f(x), f(x, reduced_dim=A)],
            lambda x, f=ufunc: [f(x), f(x, 0)],
            x=booleans(A, B),
        )
        for name, function, ufunc in [
            ("all", mtf.reduce_all, np.all),
            ("any", mtf.reduce_any, np.any),
        ]
    ],
    case(
        "reduce_logsumexp",
        lambda x: mtf.reduce_logsumexp(x, B),
        lambda x: logsumexp(x, 1),
        x=normal(A, B, D),
    ),
    case(
        "log_softmax",
        lambda x: mtf.log_softmax(x, B),
        lambda x: log_softmax(x, -np.inf),
        x=normal(A, B, D),
    ),
    case(
        "softmax",
        lambda x: mtf.softmax(x, B),
        lambda x: np.exp(log_softmax(x, -np.inf)),
        x=normal(A, B, D),
    ),
    case(
        "softmax",
        lambda x: mtf.softmax(x, B, extra_logit=1.5),
        lambda x: np.exp(log_softmax(x, 1.5)),
        x=normal(A, B, D),
    ),
    case(
        "log_softmax",
        lambda x, extra: mtf.log_softmax(x, B, extra_logit=extra),
        lambda x, extra: log_softmax(x, extra[:, None]),
        x=normal(A, B, D),
        extra=normal(A),
    ),
    case(
        "einsum",
        lambda x, y: mtf.einsum([x, y], output_shape=[A, C]),
        lambda x, y: np.einsum("abd,bc->ac", x, y),
        x=normal(A, B, D),
        y=normal(B, C),
    ),
    case("matmul", lambda x, y: mtf.matmul([x, y]), np.matmul, x=normal(A, B), y=normal(B, C)),
]
