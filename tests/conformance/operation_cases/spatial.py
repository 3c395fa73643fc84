"""Convolutions, pooling, and a user's own function."""

import functools
import itertools

import numpy as np
import tensorflow as tf

import mtf_models as mtf
from operation_cases.case import A, B, Case, D, case, normal, positive


def correlation(x, kernel, strides, same, dilations=None):
    """[batch, spatial..., in] with [filter..., in, out], by its definition."""
    rank = kernel.ndim - 2
    dilations = dilations or [1] * rank
    spans = [(k - 1) * d + 1 for k, d in zip(kernel.shape, dilations, strict=False)]
    sizes = x.shape[1 : 1 + rank]
    margins = [(0, 0)]
    for size, span, stride in zip(sizes, spans, strides, strict=True):
        zeros = max((-(-size // stride) - 1) * stride + span - size, 0) if same else 0
        margins.append((zeros // 2, zeros - zeros // 2))
    x = np.pad(x, [*margins, (0, 0)])
    counts = [(n - s) // t + 1 for n, s, t in zip(x.shape[1:], spans, strides, strict=False)]
    y = 0
    for at in itertools.product(*map(range, kernel.shape[:rank])):
        cut = tuple(
            slice(i * d, i * d + (n - 1) * t + 1, t)
            for i, d, n, t in zip(at, dilations, counts, strides, strict=True)
        )
        y = y + x[(slice(None), *cut)] @ kernel[at]
    return y


def spread(x, kernel, strides, same):
    """The transposed convolution of [batch, spatial..., in] with [filter..., out, in]."""
    rank = kernel.ndim - 2
    sizes = x.shape[1 : 1 + rank]
    filters = kernel.shape[:rank]
    full = [(n - 1) * t + k for n, t, k in zip(sizes, strides, filters, strict=True)]
    excess = [max(k - t, 0) for k, t in zip(filters, strides, strict=True)]
    results = [n * t + (0 if same else e) for n, t, e in zip(sizes, strides, excess, strict=True)]
    y = np.zeros(
        [x.shape[0], *[max(sizes) for sizes in zip(full, results, strict=True)], kernel.shape[-2]]
    )
    for at in itertools.product(*map(range, filters)):
        cut = tuple(
            slice(i, i + (n - 1) * t + 1, t) for i, n, t in zip(at, sizes, strides, strict=True)
        )
        y[(slice(None), *cut)] += x @ kernel[at].T
    begins = [e // 2 if same else 0 for e in excess]
    kept = tuple(slice(b, b + r) for b, r in zip(begins, results, strict=True))
    y = y[(slice(None), *kept)]
    short = [(0, r - n) for r, n in zip(results, y.shape[1:], strict=False)]
    return np.pad(y, [(0, 0), *short, (0, 0)])


def convolution(name, shape, kernel, strides, padding="SAME", dilations=None):
    function = getattr(mtf, name)
    keywords = {"dilations": dilations} if dilations else {}
    same = padding == "SAME"
    if name.endswith("transpose"):
        reference = functools.partial(spread, strides=strides, same=same)
    else:
        reference = functools.partial(correlation, strides=strides, same=same, dilations=dilations)
    return Case(
        name,
        lambda x, w: function(x, w, strides, padding, **keywords),
        {"x": normal(*shape), "w": normal(*kernel)},
        reference,
        is_costly=True,
    )


N, H, W = mtf.Dimension("n", 4), mtf.Dimension("h", 8), mtf.Dimension("w", 2)
N2, E = mtf.Dimension("n", 2), mtf.Dimension("e", 2)
IN, OUT = mtf.Dimension("in", 2), mtf.Dimension("out", 4)
D2, H2, W2 = (mtf.Dimension(name, 2) for name in ("fd", "fh", "fw"))
H3, W3, W4 = mtf.Dimension("fh", 3), mtf.Dimension("fw", 3), mtf.Dimension("fw", 4)

CASES = [
    convolution("conv1d", [N, H, IN], [H3, IN, OUT], [1]),
    convolution("conv1d", [N, ("h", 16), IN], [H3, IN, OUT], [1], dilations=[2]),
    convolution("conv2d", [N, H, W, IN], [H3, W3, IN, OUT], [1, 1]),
    convolution("conv2d", [N, ("h", 16), W, IN], [H3, W3, IN, OUT], [2, 1]),
    convolution("conv2d", [N, ("h", 10), W, IN], [H3, W2, IN, OUT], [1, 1], "VALID"),
    convolution("conv3d", [N2, E, H, W, IN], [D2, H3, W3, IN, OUT], [1, 1, 1]),
    convolution("conv2d_transpose", [N, H, W, IN], [H2, W2, OUT, IN], [2, 2]),
    convolution("conv2d_transpose", [N, H, W, IN], [H3, W4, OUT, IN], [2, 1]),
    convolution("conv2d_transpose", [N, ("h", 3), W, IN], [H3, W2, OUT, IN], [1, 2], "VALID"),
    convolution("conv3d_transpose", [N2, E, H, W, IN], [D2, H2, W2, OUT, IN], [2, 2, 2]),
    case(
        "pool_tensor_1d",
        lambda x: [mtf.pool_tensor_1d(x, B), mtf.pool_tensor_1d(x, B, mtf.reduce_max)],
        lambda x: [f(x.reshape(8, 8, 2, 3), 2) for f in (np.mean, np.max)],
        x=normal(A, B, D),
    ),
    case(
        "stride_tensor_1d",
        lambda x: mtf.stride_tensor_1d(x, B),
        lambda x: x[:, ::2],
        x=normal(A, B),
    ),
    case("reduce_first", lambda x: mtf.reduce_first(x, A), lambda x: x[0], x=normal(A, B)),
    case(
        "slicewise",
        lambda x, y: mtf.slicewise(
            lambda x, y: [tf.einsum("ab,b->a", x, y), tf.sort(x, axis=0)],
            [x, y],
            [mtf.Shape([A]), mtf.Shape([A, B])],
            output_dtype=x.dtype,
        ),
        lambda x, y: [x @ y, np.sort(x, 0)],
        x=normal(A, B),
        y=normal(B),
    ),
    Case(
        "slicewise",
        lambda x: mtf.slicewise(
            lambda x: tf.cumsum(x, 1),
            [x],
            splittable_dims=[A],
            grad_function=lambda op, dy: [dy * op.inputs[0] + op.outputs[0]],
        ),
        {"x": normal(A, B)},
        lambda x: np.cumsum(x, 1),
        {"gradient_reference": lambda dy, x: {"x": dy[0] * x + np.cumsum(x, 1)}},
    ),
    case(
        "cwise",
        lambda x, y: mtf.cwise(lambda x, y: tf.math.xlogy(x, y), [x, y], output_dtype=x.dtype),
        lambda x, y: x[:, None] * np.log(y),
        x=normal(A),
        y=positive(A, B),
    ),
]
