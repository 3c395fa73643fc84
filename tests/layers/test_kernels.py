"""Layers whose gradients are written out, as kernels: equal to TensorFlow's derivatives."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.layers.activation import activated_product
from mtf_models.layers.attention import attention
from mtf_models.layers.loss import softmax_cross_entropy
from mtf_models.layers.normalization import rms_norm

RANDOM = np.random.default_rng(0)
B, L, D, M = (mtf.Dimension(n, s) for n, s in [("b", 2), ("l", 3), ("d", 16), ("m", 8)])
TARGETS = np.array([[0, 1, 15], [5, 5, 2]], np.int32)


def norm(x, scale):
    return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6) * scale


def gate(x, y):
    return tf.nn.gelu(x, approximate=True) * y


def cross_entropy(x):
    log_z = tf.reduce_logsumexp(x, -1)
    picked = tf.reduce_sum(x * tf.one_hot(TARGETS, 16), -1)
    return log_z - 0.9 * picked - 0.1 * tf.reduce_mean(x, -1) + 0.1 * log_z**2


def attend(q, k, v, bias):
    return tf.einsum("blm,bmd->bld", tf.nn.softmax(tf.einsum("bld,bmd->blm", q, k) + bias), v)


def attend_capped(q, k, v, bias):
    logits = 3.0 * tf.tanh(tf.einsum("bld,bmd->blm", q, k) / 3.0)
    return tf.einsum("blm,bmd->bld", tf.nn.softmax(logits + bias), v)


def mesh_cross_entropy(x):
    targets = mtf.import_tf_tensor(x.mesh, TARGETS, [B, L])
    return softmax_cross_entropy(x, targets, D, z_loss=0.1, label_smoothing=0.1)


CASES = {
    "norm": (
        lambda x, _: rms_norm(x, D, mtf.VariableDType()),
        norm,
        [[B, L, D], [D]],
    ),
    "norm_without_scale": (
        lambda x: rms_norm(x, D, mtf.VariableDType(), use_scale=False),
        lambda x: norm(x, 1.0),
        [[B, L, D]],
    ),
    "gate": (lambda x, y: activated_product([x, y], ["gelu", "linear"]), gate, [[B, L, D]] * 2),
    "swish": (
        lambda x, y: activated_product([x, y], ["swish", "sigmoid"]),
        lambda x, y: tf.nn.silu(x) * tf.sigmoid(y),
        [[B, L, D]] * 2,
    ),
    "tanh": (lambda x: activated_product([x], ["tanh"]), tf.tanh, [[B, L, D]]),
    "squares": (
        lambda x, y: activated_product([x, y], ["squared_relu", "relu"]),
        lambda x, y: tf.nn.relu(x) ** 2 * tf.nn.relu(y),
        [[B, L, D]] * 2,
    ),
    "cross_entropy": (mesh_cross_entropy, cross_entropy, [[B, L, D]]),
    "attention": (
        lambda q, k, v, bias: attention(q, k, v, M, D, D, bias),
        attend,
        [[B, L, D], [B, M, D], [B, M, D], [L, M]],
    ),
    "attention_with_capped_logits": (
        lambda q, k, v, bias: attention(q, k, v, M, D, D, bias, logits_soft_cap=3.0),
        attend_capped,
        [[B, L, D], [B, M, D], [B, M, D], [L, M]],
    ),
}


def derived(function, values, dy):
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = function(*values)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) * dy)
    return [y, *tape.gradient(loss, values, unconnected_gradients="zero")]


def on_kernels(function, shapes, values, dy):
    """Value and gradients in one graph on a device where any chain is large enough."""
    mesh = mtf.Mesh()
    mesh.engine.least_fused = 1

    def run(*values):
        named = [mtf.Tensor(mesh, mtf.Shape(s), v) for s, v in zip(shapes, values, strict=True)]
        with mtf.VariableStore(mesh).serving({"rms_norm/scale": values[-1]}):
            return function(*named).value

    graph = tf.function(lambda *values: derived(run, list(values), dy), autograph=False)
    found = graph(*values)
    assert mesh.engine.kernels
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_values_and_gradients(name, dtype, tolerance):
    ours, plain, shapes = CASES[name]
    arrays = [RANDOM.normal(size=mtf.Shape(s).to_integer_list) for s in shapes]
    narrow = [tf.cast(tf.constant(a, tf.float32), dtype) for a in arrays]
    wide = [tf.cast(x, tf.float32) for x in narrow]
    dy = tf.constant(RANDOM.normal(size=plain(*wide).shape), tf.float32)
    for x, y in zip(on_kernels(ours, shapes, narrow, dy), derived(plain, wide, dy), strict=True):
        error = np.linalg.norm(tf.cast(x, tf.float32) - y)
        assert error <= tolerance * max(np.linalg.norm(y), 1.0)


WIDE = mtf.Shape("b:4 l:128 m:128 d:256")  # Large enough for kernels: more than 2^16 elements.
LONG, WIDTH = WIDE.dims[1], WIDE.dims[3]


def recorded_norm(targets):
    x = mtf.get_variable(targets.mesh, "x", WIDE - WIDE.dims[2])
    return rms_norm(x, WIDTH, mtf.VariableDType())


def recorded_cross_entropy(targets):
    x = mtf.get_variable(targets.mesh, "x", WIDE - WIDE.dims[2])
    return softmax_cross_entropy(x, targets, WIDTH, z_loss=0.1, label_smoothing=0.1)


def recorded_attention(targets):
    q = mtf.get_variable(targets.mesh, "q", WIDE - WIDE.dims[2])
    k, v = (mtf.get_variable(targets.mesh, n, WIDE - LONG) for n in ("k", "v"))
    return attention(q, k, v, WIDE.dims[2], WIDTH, WIDTH)


@pytest.mark.parametrize(
    ("layer", "products"),
    [(recorded_norm, 0), (recorded_cross_entropy, 0), (recorded_attention, 2)],
)
@pytest.mark.parametrize("kernels", [False, True])
def test_flops_are_those_of_products_with_and_without_kernels(layer, products, kernels):
    engines = []

    def loss(targets):
        engines.append(targets.mesh.engine)
        if kernels:
            targets.mesh.engine.least_fused = mtf.Mesh().engine.least_fused
        # Of two chains that are alike the second is not recorded again.
        return mtf.reduce_sum(layer(targets) + layer(targets))

    found = mtf.record(loss, {"targets": ("b:4 l:128", tf.int32)}, mtf.Mesh(), gradients=True)
    assert bool(engines[0].kernels) == kernels
    flops = Counter()
    for operation in found.operations:
        flops[operation.phase] += operation.flops
    # Each product forward has two of the same size backward.
    forward = 2 * products * 2 * WIDE.size
    assert flops == {"forward": forward, "backward": 2 * forward}
