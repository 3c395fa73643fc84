"""Every operation on one device and on layouts that cover its dimensions: NumPy's numbers."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models import mesh as language
from mtf_models.testing import ONE_DEVICE, Placement, check_op

A, B, C, D = (mtf.Dimension(name, size) for name, size in zip("abcd", (8, 16, 8, 3), strict=True))
# Where one operation on elements runs, with its broadcasting, all of them do: for most of them one
# layout is enough.
SPLIT_TWICE = [ONE_DEVICE, Placement("r:2;c:4", "a:r,b:c")]

# What computes nothing, and what is random (tests/mesh/test_random.py).
NOT_IN_THE_TABLE = {
    *("Dimension", "LayoutRules", "Mesh", "RandomStream", "Shape", "Tensor", "Variable"),
    *("VariableDType", "VariableStore", "combined_dimension", "convert_to_dimension"),
    *("convert_to_shape", "get_variable", "gradients", "random_stream", "variable_scope"),
    *("dropout", "random_normal", "random_uniform"),
}


class Case(NamedTuple):
    """How one operation is called, and what NumPy says."""

    name: str
    function: Callable
    inputs: dict
    reference: Callable
    options: dict = {}


def normal(*dims, scale=1.0):
    shape = mtf.Shape(dims)
    random = np.random.default_rng(shape.size)
    return shape, random.normal(size=shape.to_integer_list) * scale


def positive(*dims):
    shape, array = normal(*dims)
    return shape, np.abs(array) + 0.3


def integers(*dims, low=0, high=5):
    shape = mtf.Shape(dims)
    random = np.random.default_rng(shape.size)
    return shape, random.integers(low, high, shape.to_integer_list).astype(np.int32)


def booleans(*dims):
    shape, array = normal(*dims)
    return shape, array > 0.2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def logsumexp(x, axis):
    return np.log(np.sum(np.exp(x), axis))


def elementwise(name, reference, x=None, **options):
    options = {"placements": SPLIT_TWICE, **options}
    return Case(name, getattr(mtf, name), {"x": x or normal(A, B)}, reference, options)


def binary(name, reference, x, y, **options):
    return Case(name, getattr(mtf, name), {"x": x, "y": y}, reference, options)


def case(name, function, reference, /, **inputs):
    return Case(name, function, inputs, reference)


UNARY = [
    elementwise("abs", np.abs),
    elementwise("cos", np.cos),
    elementwise("elu", lambda x: np.where(x > 0, x, np.expm1(x))),
    elementwise("exp", np.exp),
    elementwise("gelu", gelu),
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
]

BINARY = [
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

CREATION = [
    case("constant", lambda x: x * mtf.constant(x.mesh, 3, x.shape), lambda x: 3 * x, x=normal(A)),
    case("zeros", lambda x: x + mtf.zeros(x.mesh, [A, B]), lambda x: x, x=normal(A, B)),
    case("ones", lambda x: x + mtf.ones(x.mesh, "b:16"), lambda x: x + 1, x=normal(A, B)),
    case(
        "mtf_range",
        lambda x: x * mtf.mtf_range(x.mesh, B, tf.float32),
        lambda x: x * np.arange(16),
        x=normal(A, B),
    ),
    case(
        "import_tf_tensor",
        lambda x: x * mtf.import_tf_tensor(x.mesh, np.arange(16, dtype=np.float32), [B]),
        lambda x: x * np.arange(16),
        x=normal(A, B),
    ),
]

SHAPING = [
    case(
        "broadcast",
        lambda x: mtf.broadcast(x, [B, D, A]),
        lambda x: np.broadcast_to(x[:, None], (16, 3, 8)),
        x=normal(B, A),
    ),
    case("transpose", lambda x: mtf.transpose(x, [B, A]), lambda x: x.T, x=normal(A, B)),
    case(
        "rename_dimension",
        lambda x: mtf.rename_dimension(x, "a", "c"),
        lambda x: x,
        x=normal(A, B),
    ),
    case("reshape", lambda x: mtf.reshape(x, [C, B]), lambda x: x, x=normal(A, B)),
    case(
        "reshape",
        lambda x: mtf.reshape(x, "e:8,f:4,g:4"),
        lambda x: x.reshape(8, 4, 4),
        x=normal(A, B),
    ),
    case("reshape", lambda x: mtf.reshape(x, "e:128"), lambda x: x.reshape(128), x=normal(A, B)),
    case(
        "replace_dimensions",
        lambda x: mtf.replace_dimensions(x, [A, B], [("e", 16), ("f", 8)]),
        lambda x: x.reshape(16, 8, 3),
        x=normal(A, B, D),
    ),
    case(
        "slice",
        lambda x: mtf.slice(x, 3, 8, "b"),
        lambda x: x[:, 3:11],
        x=normal(A, B, D),
    ),
    case(
        "pad",
        lambda x: mtf.pad(x, [5, 3], "a", pad_value=2),
        lambda x: np.pad(x, [(5, 3), (0, 0)], constant_values=2),
        x=normal(A, B),
    ),
    *[
        case(
            "shift",
            lambda x, n=offset: mtf.shift(x, n, B, wrap=True),
            lambda x, n=offset: np.roll(x, n, 1),
            x=normal(A, B),
        )
        for offset in (3, -5)
    ],
    *[
        case(
            "shift",
            lambda x, n=offset: mtf.shift(x, n, B, wrap=False),
            lambda x, n=offset: np.pad(x, [(0, 0), (16, 16)])[:, 16 - n : 32 - n],
            x=normal(A, B),
        )
        for offset in (3, -5, 16, -16)
    ],
]

SELECTION = [
    case(
        "one_hot",
        lambda x: mtf.one_hot(x, B, on_value=2.0, off_value=-1.0),
        lambda x: np.where(x[..., None] == np.arange(16), 2.0, -1.0),
        x=integers(A, D, low=-3, high=19),
    ),
    case(
        "gather",
        lambda weights, x: mtf.gather(weights, x, B),
        lambda weights, x: np.pad(weights, [(0, 0), (3, 3), (0, 0)])[:, x + 3],
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
    case("argmax", lambda x: mtf.argmax(x, B), lambda x: np.argmax(x, 1), x=normal(A, B, D)),
    case(
        "top_1",
        lambda x: mtf.top_1(x, A),
        lambda x: [np.max(x, 0), np.argmax(x, 0)],
        x=normal(A, B),
    ),
]


def log_softmax(x, extra):
    extra = np.broadcast_to(extra, (8, 3))
    total = logsumexp(np.concatenate([x, extra[:, None]], 1), 1)
    return x - total[:, None]


REDUCTION = [
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
]

CONTRACTION = [
    case(
        "einsum",
        lambda x, y: mtf.einsum([x, y], output_shape=[A, C]),
        lambda x, y: np.einsum("abd,bc->ac", x, y),
        x=normal(A, B, D),
        y=normal(B, C),
    ),
    case("matmul", lambda x, y: mtf.matmul([x, y]), np.matmul, x=normal(A, B), y=normal(B, C)),
]


def cube_with_slope_of_square(x):
    return mtf.custom_gradient(
        lambda x: x * x * x, lambda x, y, dy: [mtf.transpose(dy * x, [B, A])], [x]
    )


FUNCTIONAL = [
    Case(
        "custom_gradient",
        cube_with_slope_of_square,
        {"x": normal(A, B)},
        lambda x: x**3,
        {"gradient_reference": lambda dy, x: {"x": dy[0] * x}},
    ),
    case(
        "recompute_grad",
        lambda x, y: mtf.recompute_grad(lambda x, y: mtf.tanh(x * y) * y, [x, y]),
        lambda x, y: np.tanh(x * y) * y,
        x=normal(A, B),
        y=normal(B),
    ),
    Case(
        "while_loop",
        lambda x, n: mtf.while_loop(lambda x, n: n < 5, lambda x, n: [mtf.cos(x), n + 1], [x, n]),
        {"x": normal(A, B), "n": ([], np.int32(2))},
        lambda x, n: [np.cos(np.cos(np.cos(x))), np.int32(5)],
        {"differentiate": []},
    ),
]

CASES = [*UNARY, *BINARY, *CREATION, *SHAPING, *SELECTION, *REDUCTION, *CONTRACTION, *FUNCTIONAL]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operation_equals_numpy_on_every_layout(case):
    check_op(case.function, case.inputs, case.reference, **case.options)


def test_every_operation_is_in_the_table():
    assert {case.name for case in CASES} | NOT_IN_THE_TABLE == set(language.__all__)
