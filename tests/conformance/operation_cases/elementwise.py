"""Operations on each element."""

import math

import numpy as np
import tensorflow as tf

import mtf_models as mtf
from operation_cases.case import (
    SPLIT_TWICE,
    A,
    B,
    C,
    Case,
    D,
    binary,
    booleans,
    case,
    elementwise,
    gelu,
    integers,
    normal,
    positive,
    sigmoid,
)

CASES = [
    elementwise("abs", np.abs),
    elementwise("cos", np.cos),
    elementwise("elu", lambda x: np.where(x > 0, x, np.expm1(x))),
    elementwise("exp", np.exp),
    elementwise("gelu", gelu),
    elementwise("gelu_exact", lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / 2**0.5))),
    elementwise("identity", np.array),
    elementwise("leaky_relu", lambda x: np.where(x > 0, x, 0.2 * x)),
    elementwise("linear", np.array),
    elementwise("log", np.log, positive(A, B)),
    elementwise("logical_not", np.logical_not, booleans(A, B)),
    elementwise("negative", np.negative),
    elementwise("ones_like", np.ones_like, differentiate=[]),
    elementwise("reciprocal", np.reciprocal, positive(A, B)),
    elementwise("relu", lambda x: np.maximum(x, 0)),
    elementwise("rsqrt", lambda x: x**-0.5, positive(A, B)),
    elementwise("selu", lambda x: 1.05070098 * np.where(x > 0, x, 1.67326324 * np.expm1(x))),
    elementwise("sigmoid", sigmoid),
    elementwise("sign", np.sign),
    elementwise("sin", np.sin),
    elementwise("softplus", lambda x: np.log1p(np.exp(x))),
    elementwise("sqrt", np.sqrt, positive(A, B)),
    elementwise("square", np.square),
    elementwise("squared_relu", lambda x: np.maximum(x, 0) ** 2),
    elementwise("swish", lambda x: x * sigmoid(x)),
    elementwise("tanh", np.tanh),
    elementwise("to_bfloat16", np.array, rtol=0.01),
    elementwise("to_float", np.float64, integers(A, B)),
    elementwise("to_int32", np.trunc, normal(A, B, scale=3), differentiate=[]),
    elementwise("zeros_like", np.zeros_like, differentiate=[]),
    # Equal shapes; the second broadcast along the first and transposed; each along the other.
    *[
        binary(name, reference, *operands, placements=None if name == "add" else SPLIT_TWICE)
        for name, ufunc in {
            "add": np.add,
            "sub": np.subtract,
            "multiply": np.multiply,
            "divide": np.divide,
            "minimum": np.minimum,
            "maximum": np.maximum,
        }.items()
        for reference, *operands in [
            (ufunc, normal(A, B), positive(A, B)),
            (lambda x, y, f=ufunc: f(x, y.T[:, None]), normal(A, D, B), positive(B, A)),
            (lambda x, y, f=ufunc: f(x[:, :, None], y), normal(D, B), positive(C)),
        ]
    ],
    *[
        binary(
            name,
            ufunc,
            integers(A, low=-4),
            integers(B, A, low=1),
            placements=SPLIT_TWICE,
        )
        for name, ufunc in {
            "equal": np.equal,
            "floordiv": np.floor_divide,
            "greater": np.greater,
            "greater_equal": np.greater_equal,
            "less": np.less,
            "less_equal": np.less_equal,
            "mod": np.mod,
            "not_equal": np.not_equal,
        }.items()
    ],
    binary("logical_and", np.logical_and, booleans(A), booleans(B, A)),
    binary("logical_or", np.logical_or, booleans(A), booleans(B, A)),
    binary("pow", np.power, positive(A), normal(B, A)),
    case("sub", lambda x: [x - 2, 3 - x], lambda x: [x - 2, 3 - x], x=normal(A)),
    case("divide", lambda x: [x / 2, 3 / x], lambda x: [x / 2, 3 / x], x=positive(A)),
    case("pow", lambda x: [x**2, 2**x], lambda x: [x**2, 2**x], x=positive(A)),
    case("floordiv", lambda x: [x // 2, 7 // x], lambda x: [x // 2, 7 // x], x=integers(A, low=1)),
    case("less", lambda x: [x < 2, 2 < x], lambda x: [x < 2, 2 < x], x=integers(A)),
    case(
        "add",
        lambda x, y: mtf.add(x, y, output_shape=[B, A, D]),
        lambda x, y: np.broadcast_to((x + y)[:, None], (16, 8, 3)),
        x=normal(A),
        y=normal(A),
    ),
    case(
        "multiply",
        lambda x: mtf.multiply(x, 3, output_shape=[B, A]),
        lambda x: np.broadcast_to(3 * x, (16, 8)),
        x=normal(A),
    ),
    case(
        "add_n",
        lambda x, y, z: mtf.add_n([x, y, z]),
        lambda x, y, z: x + y[:, None] + z,
        x=normal(A, B),
        y=normal(A),
        z=normal(B),
    ),
    case(
        "cast",
        lambda x: mtf.cast(x, tf.float64),
        np.array,
        x=normal(A),
    ),
    Case(
        "stop_gradient",
        lambda x: x * mtf.stop_gradient(x),
        {"x": normal(A, B)},
        np.square,
        {"gradient_reference": lambda dy, x: {"x": dy[0] * x}},
    ),
    case(
        "where",
        mtf.where,
        lambda condition, if_true, if_false: np.where(condition[:, None], if_true, if_false.T),
        condition=booleans(A),
        if_true=normal(A, B),
        if_false=normal(B, A),
    ),
    case(
        "where",
        lambda condition, x: mtf.where(condition, x, -1, output_shape=[D, A, B]),
        lambda condition, x: np.broadcast_to(np.where(condition != 0, x[:, None], -1), (3, 8, 16)),
        condition=integers(B, high=2),
        x=normal(A),
    ),
]
