"""The cases of the functional layers."""

import tensorflow as tf

import mtf_models as mtf
from mtf_models.layers import (
    attention_masks,
    batch_normalization,
    convolution,
    correlation,
    dense,
    local_attention,
    loss,
    multihead_attention,
    normalization,
    pooling,
    transposed_convolution,
)
from mtf_models.mesh import Dimension
from original_cases.language import dim

C5 = Dimension("c", 5)
OUT3, OUT4 = Dimension("out", 3), Dimension("out", 4)


def pool_2d(x):
    return {"avg": pooling.avg_pool2d(x), "max": pooling.max_pool2d(x)}


def cross_entropies(logits, t, soft):
    function, v = loss.softmax_cross_entropy_with_logits, dim(logits, "v")
    return {
        "hard": function(logits, t, v),
        "hard_z": function(logits, t, v, z_loss=0.01),
        "soft_z": function(logits, soft, v, z_loss=0.01),
    }


def masks(ids, seg):
    positions = mtf.range(ids.mesh, dim(ids, "length"), tf.int32)
    return {
        "pad": attention_masks.attention_mask_ignore_padding(ids),
        "causal": attention_masks.attention_mask_autoregressive(positions),
        "segment": attention_masks.attention_mask_same_segment(seg),
    }


def batch_norm(x):
    y, _ = batch_normalization.batch_norm(x, True, 0.9, 1e-6, 0, 1, name="bn")
    return {"y": y}


def in_blocks(x):
    return convolution.conv2d_with_blocks(
        x, OUT3, (3, 3), h_blocks_dim=dim(x, "hb"), w_blocks_dim=dim(x, "wb")
    )


HEADS, KV = Dimension("heads", 2), Dimension("kv", 3)

FUNCTIONS = {
    "dense": lambda x: {
        "y": dense.dense(x, [Dimension("c", 2), Dimension("d", 3)], activation="relu", name="fc")
    },
    "dense_experts": lambda x: {
        "y": dense.dense(x, [C5], [dim(x, "b")], expert_dims=[dim(x, "e")], name="fc")
    },
    "dense_product": lambda x: {"y": dense.dense_product(x, [C5], ["gelu", "linear"], name="h")},
    "layer_norm": lambda x: {"y": normalization.layer_norm(x, dim(x, "b"))},
    "batch_norm_train": batch_norm,
    "softmax_xent": cross_entropies,
    "softmax_xent_grad": lambda x, soft: {
        "y": loss.softmax_cross_entropy_with_logits(x, soft, dim(x, "v"), 0.01)
    },
    "sigmoid_xent": lambda x, t: {"y": loss.sigmoid_cross_entropy_with_logits(x, t)},
    "conv1d": lambda x: {"y": convolution.conv1d(x, OUT4)},
    "conv2d": lambda x: {"y": convolution.conv2d(x, OUT4)},
    "conv2d_valid": lambda x: {"y": convolution.conv2d(x, OUT3, (2, 3), padding="VALID")},
    "conv2d_stride": lambda x: {"y": convolution.conv2d(x, OUT3, strides=(2, 1))},
    "conv3d": lambda x: {"y": convolution.conv3d(x, OUT3)},
    "conv2d_transpose": lambda x: {"y": transposed_convolution.conv2d_transpose(x, OUT3)},
    "conv2d_with_blocks": lambda x: {"y": in_blocks(x)},
    "pool_2d": pool_2d,
    "separable_conv1d": lambda x: {"y": convolution.separable_conv1d(x, OUT4, use_bias=False)},
    "separable_conv1d_causal": lambda x: {"y": convolution.separable_conv1d(x, OUT4, -2, 0)},
    "compress_mean": lambda x: {"y": pooling.compress_mean(x, dim(x, "b"), 2)},
    "corr": lambda x: {"y": correlation.corr(x, dim(x, "c"))},
    "attention_masks": masks,
    "dot_product_attention": lambda q, k, v, m: {
        "y": multihead_attention.dot_product_attention(q, k, v, m)
    },
    "multihead_attention": lambda x: {
        "y": multihead_attention.multihead_attention(x, None, None, KV, HEADS)
    },
    "masked_local_attention_1d": lambda x: {
        "y": local_attention.masked_local_attention_1d(x, KV, HEADS, window_size=4)
    },
}
