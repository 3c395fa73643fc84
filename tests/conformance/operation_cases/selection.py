"""Choosing entries by index and by order."""

import numpy as np
import tensorflow as tf

import mtf_models as mtf
from operation_cases.case import (
    A,
    B,
    C,
    D,
    case,
    integers,
    normal,
)


def ordered(x, k, axis):
    """The k largest entries along an axis, which goes to the end, and their places."""
    x = np.moveaxis(x, axis, -1)
    at = np.argsort(-x, -1, kind="stable")[..., :k]
    return [np.take_along_axis(x, at, -1), at.astype(np.int32)]


CASES = [
    case(
        "one_hot",
        lambda x: mtf.one_hot(x, B, on_value=2.0, off_value=-1.0),
        lambda x: np.where(x[..., None] == np.arange(16), 2.0, -1.0),
        x=integers(A, D, low=-3, high=19),
    ),
    case(
        "one_hot",
        lambda x: mtf.one_hot(x, B, dtype=tf.int32),
        lambda x: (x[..., None] == np.arange(16)).astype(np.int32),
        x=integers(A, D, low=-3, high=19),
    ),
    case(
        "gather",
        lambda weights, x: mtf.gather(weights, x, B),
        lambda weights, x: np.pad(weights.swapaxes(0, 1), [(3, 3), (0, 0), (0, 0)])[x + 3],
        weights=normal(D, B, C),
        x=integers(A, low=-3, high=19),
    ),
    case(
        "gather",
        lambda weights, x: mtf.gather(weights, x, B, output_shape=[D, A]),
        lambda weights, x: weights[x].T,
        weights=normal(B, D),
        x=integers(A, high=16),
    ),
    case(
        "gather",
        lambda weights, right: mtf.einsum(
            [mtf.gather(weights, mtf.mtf_range(weights.mesh, C), B), right], [A, C, ("f", 8)]
        ),
        lambda weights, right: np.einsum("acd,afd->acf", weights[:, :8], right),
        weights=normal(A, B, D),
        right=normal(A, ("f", 8), D),
    ),
    case("argmax", lambda x: mtf.argmax(x, B), lambda x: np.argmax(x, 1), x=normal(A, B, D)),
    case(
        "top_1",
        lambda x: mtf.top_1(x, A),
        lambda x: [np.max(x, 0), np.argmax(x, 0)],
        x=normal(A, B),
    ),
    case(
        "gather",
        lambda weights, x: mtf.gather(weights, x, B),
        lambda weights, x: np.stack(
            [
                np.pad(w, [(3, 3), (0, 0)])[i + 3]
                for w, i in zip(weights.swapaxes(0, 1), x, strict=True)
            ]
        ),
        weights=normal(B, A, D),
        x=integers(A, ("e", 8), low=-3, high=19),
    ),
    case(
        "scatter",
        lambda x, indices: mtf.scatter(x, indices, B),
        lambda x, indices: np.einsum("xb,xd->bd", indices[:, None] == np.arange(16), x),
        x=normal(A, D),
        indices=integers(A, low=-3, high=19),
    ),
    case(
        "scatter",
        lambda x, indices: mtf.scatter(x, indices, B, output_shape=[D, A, B]),
        lambda x, indices: np.einsum("eax,ead->dax", indices.T[..., None] == np.arange(16), x),
        x=normal(("e", 8), A, D),
        indices=integers(A, ("e", 8), low=-3, high=19),
    ),
    *[
        case(
            "top_k",
            lambda x, k=k, dim=dim: mtf.top_k(x, dim, ("k", k)),
            lambda x, k=k, axis=axis: ordered(x, k, axis),
            x=normal(A, B, D),
        )
        for k, dim, axis in ((8, B, 1), (3, A, 0))
    ],
    case(
        "argsort",
        lambda x: [mtf.argsort(x, B), mtf.argsort(mtf.to_int32(2.0 * x), A)],
        lambda x: [
            np.argsort(np.swapaxes(x, 1, 2), -1, kind="stable"),
            np.argsort(np.transpose(np.trunc(2 * x), (1, 2, 0)), -1, kind="stable"),
        ],
        x=normal(A, B, D),
    ),
    case(
        "nth_largest_element",
        lambda x: [mtf.nth_largest_element(x, 2, B), mtf.nth_largest_element(x, 7, A)],
        lambda x: [np.sort(x, 1)[:, -3], np.sort(x, 0)[0]],
        x=normal(A, B),
    ),
    case(
        "nth_smallest_element",
        lambda x: [mtf.nth_smallest_element(x, 0, B), mtf.nth_smallest_element(x, 3, A)],
        lambda x: [np.sort(x, 1)[:, 0], np.sort(x, 0)[3]],
        x=normal(A, B),
    ),
    case(
        "sample_with_temperature",
        lambda x: mtf.sample_with_temperature(x, B, temperature=0),
        lambda x: np.argmax(x, 1).astype(np.int32),
        x=normal(A, B),
    ),
]
