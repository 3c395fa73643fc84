"""The cases of what models are made of: attention, positions, decoding, micro-batches."""

from types import SimpleNamespace

import mtf_models as mtf
from mtf_models.layers import attention, dense
from mtf_models.mesh import Dimension
from mtf_models.testing import context_of
from mtf_models.transformer import local_attention, positions, prefix, sequences
from original_cases.language import dim


def attend(q, k, v, **options):
    return attention.attention(
        q, k, v, dim(k, "memory_length"), dim(q, "d_k"), dim(v, "d_v"), **options
    )


def buckets(r):
    return {
        "bi32": positions.relative_position_bucket(r, True),
        "uni32": positions.relative_position_bucket(r, False),
        "bi16": positions.relative_position_bucket(r, True, 16),
        "uni16": positions.relative_position_bucket(r, False, 16),
        "bi8_20": positions.relative_position_bucket(r, True, 8, 20),
        "uni8_20": positions.relative_position_bucket(r, False, 8, 20),
    }


def sinusoids(x):
    length, width = Dimension("max_length", 10), Dimension("d_model", 8)
    return {"y": positions.sinusoid_positions(x.mesh, length, width)}


def micro_batches(x):
    rows = dim(x, "a")

    def model(features):
        h = dense.dense(features["x"], [Dimension("c", 2)], use_bias=False, name="fc")
        return {"loss": mtf.reduce_sum(mtf.square(h)), "h": h}

    grads, outputs = mtf.serialize_training_step({"x": x}, model, rows, 3)
    return {**outputs, "grad_kernel": grads["fc/kernel"]}


def inputs_of_decoders(t, s, p):
    return {
        "plain": sequences.autoregressive_inputs(t, None),
        "packed": sequences.autoregressive_inputs(t, s),
        "mask": prefix.delimited_inputs_mask(p),
    }


def near(radius):
    """Local attention, forwards and to both sides, of queries, keys and values that are given."""

    def function(q, k, v, s=None):
        layer = local_attention.LocalSelfAttention(radius, num_heads=2, key_value_size=4)
        x = mtf.zeros(q.mesh, [dim(q, "batch"), dim(q, "length"), ("d_model", 8)])
        maps = SimpleNamespace(key_dim=dim(q, "d_kv"))
        found = {}
        for name, autoregressive in (("causal", True), ("both_sides", False)):
            context = context_of(x, autoregressive=autoregressive)
            context.sequence_id = s
            found[name] = mtf.transpose(layer._blocks(context, maps, q, k, v), q.shape)
        return found

    return function


FUNCTIONS = {
    "attention": lambda q, k, v, x: {"y": attend(q, k, v, bias=x)},
    "attention_grad": lambda q, k, v: {"y": attend(q, k, v, extra_logit=0.0)},
    "autoregressive_inputs": inputs_of_decoders,
    "local_attention_1d": near(3),
    "local_attention_1d_blocks": near(5),
    "relative_position_bucket": buckets,
    "serialize_training_step": micro_batches,
    "sinusoid_positions": sinusoids,
}

MENDED = {
    # Padding belongs to no inputs.
    ("autoregressive_inputs", "out/mask"): lambda case: case["out/mask"] & (case["in/p"] != 0),
}
