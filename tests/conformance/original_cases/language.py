"""The cases of the language."""

import numpy as np
import tensorflow as tf

import mtf_models as mtf
from mtf_models.mesh import Dimension

A, B, C, K, V = "a", "b", "c", "k", "v"


def dim(x, name):
    return x.shape.get_dim_by_name(name)


def einsum_matmul(x, y):
    return {"y": mtf.einsum([x, y], output_shape=[dim(x, A), dim(y, C)])}


def einsum_broadcast_output(x, y):
    return {"y": mtf.einsum([x, y], output_shape=[("e", 2), dim(y, C), dim(x, A)])}


def reduce(x):
    a, b, c = x.shape
    return {
        "sum_b": mtf.reduce_sum(x, reduced_dim=b),
        "mean_b": mtf.reduce_mean(x, reduced_dim=b),
        "max_b": mtf.reduce_max(x, reduced_dim=b),
        "min_b": mtf.reduce_min(x, reduced_dim=b),
        "sum_to_ca": mtf.reduce_sum(x, output_shape=[c, a]),
        "sum_all": mtf.reduce_sum(x),
    }


def reduce_bool(x):
    positive, b = x > 0, dim(x, B)
    return {
        "any_b": mtf.reduce_any(positive, reduced_dim=b),
        "all_b": mtf.reduce_all(positive, reduced_dim=b),
        "any_all": mtf.reduce_any(positive),
        "all_all": mtf.reduce_all(positive),
    }


def broadcast_binary(x, y, z):
    return {
        "add": x + y,
        "mul": x * z,
        "sub": z - y,
        "div": y / x,
        "sub_scalar": 1.0 - x,
        "floordiv": mtf.to_int32(x * 10) // 3,
        "mod": mtf.to_int32(x * 10) % 3,
    }


def unary(x, y):
    of_x = "relu gelu swish sigmoid tanh softplus elu selu leaky_relu squared_relu sign abs sin cos"
    of_y = "log sqrt rsqrt reciprocal"
    return {
        **{name: getattr(mtf, name)(x) for name in [*of_x.split(), "square", "exp"]},
        **{name: getattr(mtf, name)(y) for name in of_y.split()},
        "pow": mtf.pow(y, 1.5),
    }


def shift(x):
    b = dim(x, B)
    return {
        "p1": mtf.shift(x, 1, b, wrap=False),
        "p1_wrap": mtf.shift(x, 1, b, wrap=True),
        "m2": mtf.shift(x, -2, b, wrap=False),
        "m2_wrap": mtf.shift(x, -2, b, wrap=True),
        "p4": mtf.shift(x, 5, b, wrap=False),
    }


def halo_exchange(x):
    n, s = x.shape
    return {
        "h1": mtf.halo_exchange(x, n, s, 1),
        "h1_wrap": mtf.halo_exchange(x, n, s, 1, wrap=True),
        "h6": mtf.halo_exchange(x, n, s, 6),
        "left2": mtf.left_halo_exchange(x, n, s, 2),
    }


def reshape_transpose(x):
    a, b = x.shape
    return {
        "reshape": mtf.reshape(x, "b2:2 c:6"),
        "transpose": mtf.transpose(x, [b, a]),
        "rename": mtf.rename_dimension(x, "b", "z"),
        "replace": mtf.replace_dimensions(x, b, [("b0", 2), ("b1", 2)]),
    }


def structure(x, y):
    a, b = x.shape
    split0, split1 = mtf.split(x, b, [1, 3])
    return {
        "concat": mtf.concat([x, y], "b"),
        "split0": split0,
        "split1": split1,
        "stack0": mtf.stack([x, x * 2], "s"),
        "stack1": mtf.stack([x, x * 2], "s", axis=1),
        "unstack1": mtf.unstack(x, a)[1],
        "slice": mtf.slice(x, 1, 2, "b"),
        "pad": mtf.pad(x, [1, 2], "b"),
    }


def pool_1d(x):
    b = dim(x, B)
    return {
        "mean": mtf.pool_tensor_1d(x, b, mtf.reduce_mean, 2),
        "max": mtf.pool_tensor_1d(x, b, mtf.reduce_max, 2),
        "min": mtf.pool_tensor_1d(x, b, mtf.reduce_min, 2),
        "stride": mtf.stride_tensor_1d(x, b, 2),
        "first": mtf.reduce_first(x, b),
    }


def top_k(count):
    def function(x):
        value, index = mtf.top_k(x, dim(x, B), (K, count))
        return {"value": value, "index": index}

    return function


def top_1(x):
    value, index = mtf.top_1(x, dim(x, B))
    return {"value": value, "index": index, "argmax": mtf.argmax(x, dim(x, B))}


def nth_largest(x):
    b = dim(x, B)
    return {
        "largest0": mtf.nth_largest_element(x, 0, b),
        "largest2": mtf.nth_largest_element(x, 2, b),
        "smallest1": mtf.nth_smallest_element(x, 1, b),
    }


def gather_batched(w, i):
    shape = [*i.shape, dim(w, "d")]
    return {"y": mtf.gather(w, i, dim(w, V), output_shape=shape)}


def gather_int_bool(w, i):
    v = dim(w, V)
    return {"int": mtf.gather(w, i, v), "bool": mtf.gather(w > 2, i, v)}


def one_hot(i):
    v = Dimension("v", 4)
    return {
        "default": mtf.one_hot(i, v),
        "smooth": mtf.one_hot(i, v, on_value=0.9, off_value=0.05),
        "int": mtf.one_hot(i, v, dtype=tf.int32),
    }


def loop(x):
    i, x = mtf.while_loop(
        lambda i, x: i < 5,
        lambda i, x: [i + 1, x * 1.1 + mtf.to_float(i)],
        [mtf.constant(x.mesh, 0, dtype=tf.int32), x],
    )
    return {"i": i, "x": x}


def loop_with_accumulators(x):
    i, x, acc0, acc1 = mtf.while_loop(
        lambda i, x: i < 4,
        lambda i, x: [i + 1, x * 0.5, x * mtf.to_float(i), mtf.reduce_sum(x)],
        [mtf.constant(x.mesh, 0, dtype=tf.int32), x],
        has_accumulators=True,
    )
    return {"i": i, "x": x, "acc0": acc0, "acc1": acc1}


FUNCTIONS = {
    "einsum_matmul": einsum_matmul,
    "einsum_default_reduce": lambda x, y: {"y": mtf.einsum([x, y])},
    "einsum_reduced_dims": lambda x, y, z: {"y": mtf.einsum([x, y, z], reduced_dims=[dim(x, B)])},
    "einsum_broadcast_output": einsum_broadcast_output,
    "einsum_outer": lambda x, y: {"y": mtf.einsum([x, y])},
    "einsum_same_name_different_size": lambda x, y: {
        "y": mtf.einsum([x, y], output_shape=[*x.shape, *y.shape])
    },
    "reduce": reduce,
    "reduce_bool": reduce_bool,
    "reduce_max_grad_ties": lambda x: {"y": mtf.reduce_max(x, reduced_dim=dim(x, B))},
    "maximum_grad_ties": lambda x, y: {"y": mtf.maximum(x, y)},
    "broadcast_binary": broadcast_binary,
    "unary": unary,
    "gelu_grad": lambda x: {"y": mtf.gelu(x)},
    "softmax": lambda x: {"y": mtf.softmax(x, dim(x, B))},
    "softmax_extra_logit": lambda x: {"y": mtf.softmax(x, dim(x, B), extra_logit=0.5)},
    "softmax_extra_logit_tensor": lambda x, e: {"y": mtf.softmax(x, dim(x, B), extra_logit=e)},
    "log_softmax": lambda x: {
        "log_softmax": mtf.log_softmax(x, dim(x, B)),
        "logsumexp": mtf.reduce_logsumexp(x, dim(x, B)),
    },
    "cumsum": lambda x: {
        "inclusive": mtf.cumsum(x, dim(x, B)),
        "exclusive": mtf.cumsum(x, dim(x, B), exclusive=True),
    },
    "cumsum_exclusive_grad": lambda x: {"y": mtf.cumsum(x, dim(x, A), exclusive=True)},
    "top_1": top_1,
    "top_k_small": top_k(3),
    "top_k_large": top_k(6),
    "top_k_grad": lambda x: {"y": top_k(6)(x)["value"]},
    "nth_largest": nth_largest,
    "gather": lambda w, i: {"y": mtf.gather(w, i, dim(w, V))},
    "gather_batched": gather_batched,
    "gather_int_bool": gather_int_bool,
    "one_hot": one_hot,
    "shift": shift,
    "shift_grad": lambda x: {"y": mtf.shift(x, 1, dim(x, B), wrap=False)},
    "dynamic_shift": lambda x, o: {
        "nowrap": mtf.dynamic_shift(x, o, dim(x, B), wrap=False),
        "wrap": mtf.dynamic_shift(x, o, dim(x, B), wrap=True),
    },
    "halo_exchange": halo_exchange,
    "halo_exchange_grad": lambda x: {"y": mtf.halo_exchange(x, *x.shape, 2)},
    "reshape_transpose": reshape_transpose,
    "structure": structure,
    "where": lambda x, y, z: {"full": mtf.where(x > 0, x, y), "row": mtf.where(z > 0, x, y)},
    "pool_1d": pool_1d,
    "range_constant": lambda x: {
        "i": mtf.range(x.mesh, dim(x, A), tf.int32),
        "f": mtf.range(x.mesh, dim(x, A), tf.float32),
    },
    "rms_norm": lambda x, s: {
        "y": x * mtf.rsqrt(mtf.reduce_mean(x * x, reduced_dim=dim(x, B)) + 1e-6) * s
    },
    "sample_temperature_0": lambda x: {"y": mtf.sample_with_temperature(x, dim(x, V), 0.0)},
    "while_loop": loop,
    "while_loop_accumulators": loop_with_accumulators,
    "recompute_grad": lambda x: {"y": mtf.recompute_grad(lambda x: mtf.sin(x) * x + x, [x])},
}

MENDED = {
    # The gradient of a maximum is counted once: shared by equal entries, or of the first operand.
    ("reduce_max_grad_ties", "grad/x"): lambda case: shared_by_the_largest(
        case["in/x"], case["cotangent/y"]
    ),
    ("maximum_grad_ties", "grad/y"): lambda case: (
        case["cotangent/y"] * (case["in/x"] < case["in/y"])
    ),
}

REFUSED = {
    # One name would be laid out twice over one axis.
    "einsum_same_name_different_size": "Shape[b=4, b=2] repeats b",
}


def shared_by_the_largest(x, dy):
    largest = x == x.max(1, keepdims=True)
    return np.where(largest, dy[:, np.newaxis] / largest.sum(1, keepdims=True), 0)
