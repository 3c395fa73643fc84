"""Operations that move entries along a dimension, join tensors and take them apart."""

import numpy as np
import tensorflow as tf

import mtf_models as mtf
from operation_cases.case import A, B, C, D, booleans, case, integers, normal

S = mtf.Dimension("s", 8)


def shifted(x, offset, axis, wrap):
    if wrap:
        return np.roll(x, offset, axis)
    size = x.shape[axis]
    margins = [(0, 0)] * x.ndim
    margins[axis] = (size, size)
    offset = np.clip(offset, -size, size)
    return np.take(np.pad(x, margins), np.arange(size - offset, 2 * size - offset), axis)


def shifted_rows(x, offsets, wrap):
    """[a, d, b] shifted along b by offsets [a]."""
    return np.stack([shifted(row, n, -1, wrap) for row, n in zip(x, offsets, strict=True)])


def with_margins(x, left, right, wrap):
    """[n, s, ...] blocks with the margins of their neighbours."""
    n, s = x.shape[:2]
    flat = x.reshape(n * s, *x.shape[2:])
    at = np.arange(n)[:, None] * s + np.arange(-left, s + right)[None]
    if wrap:
        return flat[at % (n * s)]
    padded = np.pad(flat, [(left, right)] + [(0, 0)] * (x.ndim - 2))
    return padded[at + left]


CASES = [
    case("slice", lambda x: mtf.slice(x, 3, 8, "b"), lambda x: x[:, 3:11], x=normal(A, B, D)),
    case(
        "pad",
        lambda x: mtf.pad(x, [5, 3], "a", pad_value=2),
        lambda x: np.pad(x, [(5, 3), (0, 0)], constant_values=2),
        x=normal(A, B),
    ),
    case(
        "pad",
        lambda x: mtf.pad(x, [0, 8], "b", pad_value=True),
        lambda x: np.pad(x, [(0, 0), (0, 8)], constant_values=True),
        x=booleans(A, B),
    ),
    case(
        "with_entry",
        lambda x, y: mtf.with_entry(
            x, y, mtf.constant(x.mesh, 5, dtype=tf.int32), x.shape.get_dim_by_name("b")
        ),
        lambda x, y: np.concatenate([x[:, :5], np.expand_dims(y.T, 1), x[:, 6:]], 1),
        x=normal(A, B, D),
        y=normal(D, A),
    ),
    case(
        "concat",
        lambda x, y: mtf.concat([x, y, x], "b"),
        lambda x, y: np.concatenate([x, y.T, x], 1),
        x=normal(A, B),
        y=normal(("b", 8), A),
    ),
    case(
        "split",
        lambda x: mtf.split(x, B, 2) + mtf.split(x, A, [2, 6]),
        lambda x: [x[:, :8], x[:, 8:], x[:2], x[2:]],
        x=normal(A, B),
    ),
    case(
        "stack",
        lambda x, y: [mtf.stack([x, y] * 4, "s"), mtf.stack([y, x] * 4, "s", axis=-1)],
        lambda x, y: [np.stack([x, y.T] * 4), np.stack([y, x.T] * 4, -1)],
        x=normal(A, B),
        y=normal(B, A),
    ),
    case("unstack", lambda x: mtf.unstack(x, A), list, x=normal(A, B)),
    case(
        "shift",
        lambda x: [mtf.shift(x, n, B, wrap=True) for n in (3, -5)],
        lambda x: [shifted(x, n, 1, True) for n in (3, -5)],
        x=normal(A, B),
    ),
    case(
        "shift",
        lambda x: [mtf.shift(x, n, B, wrap=False) for n in (3, -5, 17, -16)],
        lambda x: [shifted(x, n, 1, False) for n in (3, -5, 17, -16)],
        x=normal(A, B),
    ),
    case(
        "dynamic_shift",
        lambda x, offset: [mtf.dynamic_shift(x, offset, B, wrap) for wrap in (True, False)],
        lambda x, offset: [shifted_rows(x, offset, wrap) for wrap in (True, False)],
        x=normal(A, D, B),
        offset=integers(A, low=-20, high=20),
    ),
    case(
        "halo_exchange",
        lambda x: [mtf.halo_exchange(x, A, S, n, w) for n, w in ((4, False), (4, True))],
        lambda x: [with_margins(x, 4, 4, w) for w in (False, True)],
        x=normal(A, S, D),
    ),
    case(
        "halo_exchange",
        lambda x: [mtf.halo_exchange(x, A, C, 12), mtf.halo_exchange(x, None, C, 4, wrap=True)],
        lambda x: [with_margins(x, 12, 12, False), np.pad(x, [(0, 0), (4, 4)], mode="wrap")],
        x=normal(A, C),
    ),
    case(
        "left_halo_exchange",
        lambda x: mtf.left_halo_exchange(x, A, C, 8),
        lambda x: with_margins(x, 8, 0, False),
        x=normal(A, C),
    ),
    case(
        "cumsum",
        lambda x: [mtf.cumsum(x, B), mtf.cumsum(x, A, exclusive=True)],
        lambda x: [np.cumsum(x, 1), np.cumsum(x, 0) - x],
        x=normal(A, B),
    ),
]
