"""What is promised of every functional layer: values, layouts, gradients, bfloat16, checkpoints."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.layers import (
    attention_masks,
    batch_normalization,
    convolution,
    correlation,
    dense,
    embedding,
    feed_forward,
    local_attention,
    loss,
    multihead_attention,
    normalization,
    pooling,
    reversible,
    spatial_attention,
    transposed_convolution,
)
from mtf_models.testing import MESHES, check_layer, covering, most_split


class Case(NamedTuple):
    """A layer, its inputs, and what NumPy says, if the original's values do not say it already."""

    name: str
    layer: Callable
    inputs: dict
    reference: Callable | None = None
    options: dict = {}


def normal(*dims):
    shape = mtf.Shape(dims)
    return shape, np.random.default_rng(shape.size).normal(size=shape.to_integer_list)


def integers(high, *dims):
    shape = mtf.Shape(dims)
    random = np.random.default_rng(shape.size)
    return shape, random.integers(0, high, shape.to_integer_list).astype(np.int32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    return np.log(softmax(x))


N, L, M = mtf.Dimension("n", 2), mtf.Dimension("length", 8), mtf.Dimension("d_model", 4)
F, H, KV = mtf.Dimension("d_ff", 8), mtf.Dimension("heads", 4), mtf.Dimension("kv", 2)
V, OUT = mtf.Dimension("vocab", 8), mtf.Dimension("out", 4)
HB, WB = mtf.Dimension("hb", 2), mtf.Dimension("wb", 2)
X = normal(N, L, M)


def attend(variables, x, bias=0.0, memory=None, extra=False):
    wq, wk, wv, wo = next(iter(variables.values()))
    memory = x if memory is None else memory
    q, k, v = (np.einsum("nlm,hmk->nhlk", y, w) for y, w in ((x, wq), (memory, wk), (memory, wv)))
    logits = np.einsum("nhqk,nhlk->nhql", q, k) + bias
    if extra:
        logits = np.concatenate([logits, np.zeros_like(logits[..., :1])], -1)
    weights = softmax(logits)[..., : memory.shape[1]]
    return np.einsum("nhql,nhlk,hmk->nqm", weights, v, wo)


def compressed(variables, x):
    memory = x.reshape(2, 4, 2, 4).mean(2)
    seen = np.arange(4) * 2 + 1 <= np.arange(8)[:, np.newaxis]
    return attend(variables, x, np.where(seen, 0, -1e9), memory, extra=True)


def local(variables, x):
    """Blocks of 4 with a margin of 3, of which position p sees the last 4 positions."""
    padded = np.concatenate([np.zeros((2, 8, 4)), x], 1)
    at, query = np.arange(-8, 8), np.arange(8)[:, np.newaxis]
    seen = (at <= query) & (at > query - 4) & (at >= query // 4 * 4 - 3)
    return attend(variables, x, np.where(seen, 0, -1e9), padded)


def blocks(image):
    """[n, hb, wb, h, w, c] of [n, H, W, c], two blocks along each side."""
    n, h, w, c = image.shape
    return image.reshape(n, 2, h // 2, 2, w // 2, c).transpose(0, 1, 3, 2, 4, 5)


def image(x):
    n, hb, wb, h, w, c = x.shape
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, hb * h, wb * w, c)


def beside_in_a_row(variables, x):
    """Two blocks of 4 that see each other, and zeros beyond."""
    row = x.reshape(2, 8, 4)
    memory = np.pad(row, [(0, 0), (4, 4), (0, 0)])
    distance = np.arange(-4, 12) // 4 - np.arange(8)[:, np.newaxis] // 4
    seen = np.abs(distance) <= 1
    return attend(variables, row, np.where(seen, 0, -1e9), memory).reshape(x.shape)


def before_in_an_image(variables, x):
    """Blocks of 2 x 2 that see those above and to the left, up to the pixel itself."""
    pixels = image(x).reshape(2, 16, 4)
    memory = np.pad(image(x), [(0, 0), (2, 0), (2, 0), (0, 0)]).reshape(2, 36, 4)
    row, column = (i.reshape(-1, 1) for i in np.mgrid[0:4, 0:4])
    at_row, at_column = (i.reshape(-1) for i in np.mgrid[-2:4, -2:4])
    near = (at_row >= row // 2 * 2 - 2) & (at_row < row // 2 * 2 + 2)
    near &= (at_column >= column // 2 * 2 - 2) & (at_column < column // 2 * 2 + 2)
    seen = near & ((at_row < row) | (at_row == row) & (at_column <= column))
    y = attend(variables, pixels, np.where(seen, 0, -1e9), memory)
    return blocks(y.reshape(2, 4, 4, 4))


def correlated(x, kernel):
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    h, w = x.shape[1:3]
    taps = [(i, j) for i in range(3) for j in range(3)]
    return sum(padded[:, i : i + h, j : j + w] @ kernel[i, j] for i, j in taps)


def correlated_blocks(variables, x):
    return blocks(correlated(image(x), variables["conv2d/kernel"]))


def spread_blocks(variables, x):
    """Stride 2, filter 4: SAME cuts one place at each end."""
    whole, kernel = image(x), variables["conv2d_transpose/kernel"]
    n, h, w, _ = whole.shape
    y = np.zeros([n, 2 * h + 2, 2 * w + 2, kernel.shape[2]])
    for i in range(4):
        for j in range(4):
            y[:, i : i + 2 * h : 2, j : j + 2 * w : 2] += whole @ kernel[i, j].T
    return blocks(y[:, 1:-1, 1:-1])


def swapped(x1, x2):
    y1, _, y2, _ = reversible.reversible_half_residual_and_swap(
        x1, None, x2, None, lambda x: feed_forward.dense_relu_dense(x, F, name="f")
    )
    return [y1, y2]


def swap_reference(variables, x1, x2):
    return [x2, x1 + np.maximum(x2 @ variables["f/wi/kernel"], 0) @ variables["f/wo/kernel"]]


# Where compiling takes long, and is tested of the operations already.
FEW = {"modes": ["eager"], "promises": ["layouts", "gradients", "bfloat16"]}

CASES = [
    Case(
        "dense",
        lambda x: dense.dense(x, [H, KV], activation="tanh"),
        {"x": X},
        lambda v, x: np.tanh(np.einsum("nlm,mhk->nlhk", x, v["dense/kernel"]) + v["dense/bias"]),
    ),
    Case(
        "dense_product",
        lambda x: dense.dense_product(x, [F], ["sigmoid", "linear"], name="wi"),
        {"x": X},
        lambda v, x: (x @ v["wi_1/kernel"]) / (1 + np.exp(-x @ v["wi_0/kernel"])),
    ),
    Case(
        "dense_relu_dense",
        lambda x: feed_forward.dense_relu_dense(x, F),
        {"x": X},
        lambda v, x: (
            np.maximum(x @ v["dense_relu_dense/wi/kernel"], 0) @ v["dense_relu_dense/wo/kernel"]
        ),
    ),
    Case(
        "layer_norm",
        lambda x: normalization.layer_norm(x, M),
        {"x": X},
        lambda v, x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6),
    ),
    Case(
        "batch_norm",
        lambda x: batch_normalization.batch_norm(x, True, 0.9, 1e-6)[0],
        {"x": X},
        lambda v, x: (x - x.mean((0, 1))) / np.sqrt(x.var((0, 1)) + 1e-6),
    ),
    Case(
        "batch_norm",
        lambda x: batch_normalization.batch_norm(x, False, 0.9, 1e-6)[0],
        {"x": X},
        lambda v, x: x / np.sqrt(1 + 1e-6),
    ),
    Case(
        "embedding",
        lambda ids: embedding.embedding(ids, V, M),
        {"ids": integers(8, N, L)},
        lambda v, ids: v["embedding"][ids],
    ),
    Case(
        "softmax_cross_entropy_with_logits",
        lambda x, t: loss.softmax_cross_entropy_with_logits(x, t, V, z_loss=0.1),
        {"x": normal(N, L, V), "t": integers(8, N, L)},
        lambda v, x, t: (
            -np.take_along_axis(log_softmax(x), t[..., np.newaxis], -1)[..., 0]
            + 0.1 * np.log(np.exp(x).sum(-1)) ** 2
        ),
    ),
    Case(
        "sigmoid_cross_entropy_with_logits",
        lambda x, t: loss.sigmoid_cross_entropy_with_logits(x, mtf.sigmoid(t)),
        {"x": normal(N, L, V), "t": normal(N, L, V)},
        lambda v, x, t: np.log1p(np.exp(x)) - x / (1 + np.exp(-t)),
    ),
    Case(
        "multihead_attention",
        lambda x: multihead_attention.multihead_attention(
            x,
            None,
            attention_masks.attention_mask_autoregressive(mtf.range(x.mesh, L)),
            KV,
            H,
        ),
        {"x": X},
        lambda v, x: attend(v, x, np.where(np.tri(8), 0, -1e9)),
    ),
    Case(
        "multihead_self_attention_memory_compressed",
        lambda x: multihead_attention.multihead_self_attention_memory_compressed(x, True, 2, KV, H),
        {"x": X},
        compressed,
    ),
    Case(
        "masked_local_attention_1d",
        lambda x: local_attention.masked_local_attention_1d(
            x, KV, H, window_size=3, length_per_split=4
        ),
        {"x": X},
        local,
    ),
    Case(
        "local_self_attention_spatial_blocks",
        lambda x: spatial_attention.local_self_attention_spatial_blocks(x, KV, H),
        {"x": normal(N, WB, ("w", 4), M)},
        beside_in_a_row,
    ),
    Case(
        "local_2d_self_attention_spatial_blocks",
        lambda x: spatial_attention.local_2d_self_attention_spatial_blocks(
            x, KV, H, mask_right=True
        ),
        {"x": normal(N, HB, WB, ("h", 2), ("w", 2), M)},
        before_in_an_image,
        FEW,
    ),
    Case(
        "conv2d",
        lambda x: convolution.conv2d(x, OUT),
        {"x": normal(N, ("h", 4), ("w", 4), ("in", 2))},
        lambda v, x: correlated(x, v["conv2d/kernel"]),
    ),
    Case(
        "conv2d_with_blocks",
        lambda x: convolution.conv2d_with_blocks(x, OUT, h_blocks_dim=HB, w_blocks_dim=WB),
        {"x": normal(N, HB, WB, ("h", 2), ("w", 2), ("in", 2))},
        correlated_blocks,
        FEW,
    ),
    Case(
        "conv2d_transpose_with_blocks",
        lambda x: transposed_convolution.conv2d_transpose_with_blocks(
            x, OUT, (4, 4), h_blocks_dim=HB, w_blocks_dim=WB
        ),
        {"x": normal(N, HB, WB, ("h", 2), ("w", 2), ("in", 2))},
        spread_blocks,
        FEW,
    ),
    Case(
        "separable_conv1d",
        lambda x: convolution.separable_conv1d(x, OUT, -2, 0),
        {"x": X},
        lambda v, x: (
            sum(
                np.pad(x, [(0, 0), (2 - i, 0), (0, 0)])[:, :8]
                * v[f"separable_conv1d/depthwise_conv_hack/depthwise_dense_{i}/kernel"]
                for i in range(3)
            )
            @ v["separable_conv1d/pointwise_dense/kernel"]
        ),
    ),
    Case(
        "pools",
        lambda x: [pooling.max_pool2d(x), pooling.avg_pool2d(x, (2, 1))],
        {"x": normal(N, ("h", 8), ("w", 8), ("c", 2))},
        lambda v, x: [
            x.reshape(2, 4, 2, 4, 2, 2).max((2, 4)),
            x.reshape(2, 4, 2, 8, 2).mean(2),
        ],
    ),
    Case("corr", lambda x: correlation.corr(x, M), {"x": X}),
    Case("reversible", swapped, {"x1": X, "x2": X}, swap_reference),
]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
def test_a_layer_keeps_what_is_promised(case):
    on_two_axes = functools.partial(most_split, meshes=MESHES[-1:])
    check_layer(case.layer, case.inputs, case.reference, placements=on_two_axes, **case.options)


@pytest.mark.nightly
@each_case
def test_a_layer_is_the_same_on_layouts_that_cover(case):
    options = {**case.options, "promises": ["layouts"]}
    check_layer(case.layer, case.inputs, placements=covering, **options)
