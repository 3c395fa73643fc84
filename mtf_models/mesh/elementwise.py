"""Operations on each element, with broadcasting by dimension name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_models.errors import ShapeError, refuse
from mtf_models.mesh.dimension import Shape, ShapeLike, convert_to_shape, is_subsequence, two_sizes
from mtf_models.mesh.dtype import DTypeLike, as_dtype
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.reshape import broadcast, broadcast_value
from mtf_models.mesh.shared_constants import shared_constant
from mtf_models.mesh.size import Size
from mtf_models.mesh.tensor import Tensor, import_tf_tensor, make, operation, size_value, sizes

Scalar = int | float | bool | np.number
Operand = Tensor | Scalar | Size

_NO_NUMBERS = "OSUMm"
"""Kinds of arrays: objects, texts and dates."""


def _unary(name: str, function: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[Tensor], Tensor]:
    def apply(x: Tensor) -> Tensor:
        return make(x.mesh, function(x.value), x.shape)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Computes `{name}` of each element; the shape stays."
    return operation(apply)


abs = _unary("abs", tf.abs)
cos = _unary("cos", tf.cos)
elu = _unary("elu", tf.nn.elu)
exp = _unary("exp", tf.exp)
identity = _unary("identity", tf.identity)
log = _unary("log", tf.math.log)
logical_not = _unary("logical_not", tf.logical_not)
negative = _unary("negative", tf.negative)
reciprocal = _unary("reciprocal", tf.math.reciprocal)
relu = _unary("relu", tf.nn.relu)
rsqrt = _unary("rsqrt", tf.math.rsqrt)
selu = _unary("selu", tf.nn.selu)
sigmoid = _unary("sigmoid", tf.sigmoid)
sign = _unary("sign", tf.sign)
sin = _unary("sin", tf.sin)
softplus = _unary("softplus", tf.nn.softplus)
sqrt = _unary("sqrt", tf.sqrt)
square = _unary("square", tf.square)
swish = _unary("swish", lambda x: x * tf.sigmoid(x))
tanh = _unary("tanh", tf.tanh)
squared_relu = _unary("squared_relu", lambda x: tf.square(tf.nn.relu(x)))
# The tanh form is the one that trained checkpoints contain.
gelu = _unary("gelu", lambda x: tf.nn.gelu(x, approximate=True))
gelu_exact = _unary("gelu_exact", lambda x: tf.nn.gelu(x, approximate=False))


def linear(x: Tensor) -> Tensor:
    """The identity under the name that activation lists use."""
    return x


@operation
def leaky_relu(x: Tensor, alpha: float = 0.2) -> Tensor:
    """`x` where positive, `alpha * x` elsewhere."""
    return make(x.mesh, tf.nn.leaky_relu(x.value, alpha), x.shape)


@operation
def cast(x: Tensor, dtype: tf.DType) -> Tensor:
    """The same numbers in another dtype."""
    if x.dtype == dtype:
        return x
    return make(x.mesh, tf.cast(x.value, dtype), x.shape)


def to_float(x: Tensor) -> Tensor:
    """Casts to float32."""
    return cast(x, tf.float32)


def to_int32(x: Tensor) -> Tensor:
    """Casts to int32."""
    return cast(x, tf.int32)


def to_bfloat16(x: Tensor) -> Tensor:
    """Casts to bfloat16."""
    return cast(x, tf.bfloat16)


def binary_shape(a: Shape, b: Shape) -> Shape:
    """The shape of an operation on two tensors: the longer if it has the other's dimensions.

    Otherwise the first shape followed by what it lacks of the second, as in the original.
    """
    if is_subsequence(a.dims, b.dims):
        return b
    if is_subsequence(b.dims, a.dims):
        return a
    return a + [d for d in b if d not in a]


def _binary(name: str, function: Callable[..., tf.Tensor]) -> Callable[..., Tensor]:
    def apply(a: Operand, b: Operand, output_shape: ShapeLike | None = None) -> Tensor:
        if not isinstance(a, Tensor) or not isinstance(b, Tensor):
            x = _with_scalar(function, a, b)
            return x if output_shape is None else broadcast(x, output_shape)
        output = convert_to_shape(output_shape)
        _check(name, [a, b], [a, b], output)
        shape = binary_shape(a.shape, b.shape) if output is None else output
        found = Shape([d for d in shape if d in a.shape or d in b.shape])
        value = function(*(broadcast_value(x, found, leading=False) for x in (a, b)))
        return broadcast(make(a.mesh, value, found), shape)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""Computes `{name}` of two tensors, or of a tensor and a Python scalar.

    Args:
        a: the first operand.
        b: the second operand, of the same dtype.
        output_shape: by default the longer shape if it contains the other, else the first shape
            and what it lacks of the second.

    Raises:
        ShapeError: if the dtypes differ, or a dimension has two sizes.
    """
    return operation(apply)


def _quotient(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    if a.dtype.is_integer:
        raise ShapeError(
            f"A quotient of {a.dtype.name} is no whole number; cast the operands (mtf.to_float) or "
            "take mtf.floordiv."
        )
    return tf.divide(a, b)


add = _binary("add", tf.add)
sub = _binary("sub", tf.subtract)
multiply = _binary("multiply", tf.multiply)
divide = _binary("divide", _quotient)
floordiv = _binary("floordiv", tf.math.floordiv)
mod = _binary("mod", tf.math.floormod)
pow = _binary("pow", tf.pow)
minimum = _binary("minimum", tf.minimum)
maximum = _binary("maximum", tf.maximum)
less = _binary("less", tf.less)
less_equal = _binary("less_equal", tf.less_equal)
greater = _binary("greater", tf.greater)
greater_equal = _binary("greater_equal", tf.greater_equal)
equal = _binary("equal", tf.equal)
not_equal = _binary("not_equal", tf.not_equal)
logical_and = _binary("logical_and", tf.logical_and)
logical_or = _binary("logical_or", tf.logical_or)


def add_n(xs: list[Tensor]) -> Tensor:
    """The sum of several tensors.

    Raises:
        ShapeError: listing all dtypes and sizes that do not go together, or if there are none.
    """
    refuse("mtf.add_n", [None if xs else "there is nothing to add; give one tensor or more"])
    _check("add_n", xs, xs, None)
    total = xs[0]
    for x in xs[1:]:
        total = add(total, x)
    return total


@operation
def where(
    condition: Tensor, if_true: Operand, if_false: Operand, output_shape: ShapeLike | None = None
) -> Tensor:
    """Selects by element; NaN and infinity of the side not chosen do not leak.

    Args:
        condition: bool; other dtypes count as true where not zero.
        if_true: a tensor or scalar.
        if_false: a tensor of the same dtype, or a scalar.
        output_shape: by default the union of the shapes, the longest first.
    """
    mesh, shape = condition.mesh, convert_to_shape(output_shape)
    given = [side for side in (if_true, if_false) if isinstance(side, Tensor)]
    _check("where", [condition, *given], given, shape)
    dtype = given[0].dtype if given else tf.float32
    chosen = condition if condition.dtype == tf.bool else not_equal(condition, 0)
    sides = [_as_tensor(mesh, side, dtype) for side in (if_true, if_false)]
    if shape is None:
        shape = binary_shape(binary_shape(chosen.shape, sides[0].shape), sides[1].shape)
    a, b = (broadcast_value(side, shape) for side in sides)
    value = tf.where(broadcast_value(chosen, shape), a, b)
    return make(mesh, tf.broadcast_to(value, sizes(shape)), shape)


@operation
def constant(
    mesh: Mesh, value: Scalar, shape: ShapeLike = (), dtype: tf.DType = tf.float32
) -> Tensor:
    """A tensor filled with one number."""
    number = import_tf_tensor(mesh, scalar(value, dtype), Shape())
    return broadcast(number, convert_to_shape(shape))


def zeros(mesh: Mesh, shape: ShapeLike, dtype: tf.DType = tf.float32) -> Tensor:
    """A tensor of zeros."""
    return constant(mesh, 0, shape, dtype)


def ones(mesh: Mesh, shape: ShapeLike, dtype: tf.DType = tf.float32) -> Tensor:
    """A tensor of ones."""
    return constant(mesh, 1, shape, dtype)


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of the shape and dtype of `x`."""
    return zeros(x.mesh, x.shape, x.dtype)


def ones_like(x: Tensor) -> Tensor:
    """Ones of the shape and dtype of `x`."""
    return ones(x.mesh, x.shape, x.dtype)


@operation
def stop_gradient(x: Tensor) -> Tensor:
    """The same value, through which no gradient flows."""
    return make(x.mesh, tf.stop_gradient(x.value), x.shape)


def _with_scalar(function: Callable[..., tf.Tensor], a: Operand, b: Operand) -> Tensor:
    x = a if isinstance(a, Tensor) else b
    sides = (s.value if isinstance(s, Tensor) else scalar(s, x.dtype) for s in (a, b))
    return make(x.mesh, function(*sides), x.shape)


def scalar(value: Any, dtype: DTypeLike) -> tf.Tensor:
    """A number as a TensorFlow scalar of a dtype that holds it.

    Args:
        value: a Python or NumPy number, a TensorFlow scalar, or the size of a dimension.
        dtype: of the result.

    Raises:
        ShapeError: if it is no number, has axes, or would be cut to a whole number.
    """
    dtype, value = as_dtype(dtype), size_value(value)
    array = value if tf.is_tensor(value) else np.asarray(value)
    found = list(array.shape)
    if not tf.is_tensor(value) and array.dtype.kind in _NO_NUMBERS:
        raise ShapeError(f"{value!r} is neither a named tensor nor a number.")
    if found:
        raise ShapeError(
            f"A value of shape {found} has no dimension names; only scalars can do without. Name "
            "its axes with mtf.import_tf_tensor(mesh, value, shape)."
        )
    if tf.is_tensor(value):
        return tf.cast(value, dtype)
    if dtype.is_integer and not float(value).is_integer():
        raise ShapeError(
            f"{value!r} would be cut to a whole number beside a tensor of {dtype.name}; cast the "
            "tensor first (mtf.to_float)."
        )
    number = int(value) if dtype.is_integer else bool(value) if dtype.is_bool else value
    return shared_constant(number, dtype)


def _as_tensor(mesh: Mesh, value: Operand, dtype: tf.DType) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return import_tf_tensor(mesh, scalar(value, dtype), Shape())


def _check(name: str, operands: list[Tensor], alike: list[Tensor], output: Shape | None) -> None:
    """Refuses operands whose dtypes, sizes or result do not go together; `alike` need one dtype."""
    dtypes = sorted({x.dtype.name for x in alike})
    lost = [] if output is None else [d for x in operands for d in x.shape if d not in output]
    listed = ", ".join(f"{x.dtype.name} {x.shape}" for x in operands)
    refuse(
        f"mtf.{name} of {listed}" + ("" if output is None else f" to {output}"),
        [
            f"the dtypes {' and '.join(dtypes)} must be equal; cast one (mtf.cast)"
            if dtypes[1:]
            else None,
            *two_sizes([*(x.shape for x in operands), output or Shape()]),
            f"the result lacks {', '.join(map(str, dict.fromkeys(lost)))}" if lost else None,
        ],
    )


def _install_operators() -> None:
    """Gives `Tensor` the Python operators, which need the operations of this module."""
    for symbol, function in {
        "add": add,
        "sub": sub,
        "mul": multiply,
        "truediv": divide,
        "floordiv": floordiv,
        "mod": mod,
        "pow": pow,
    }.items():
        setattr(Tensor, f"__{symbol}__", lambda a, b, f=function: f(a, b))
        setattr(Tensor, f"__r{symbol}__", lambda a, b, f=function: f(b, a))
    Tensor.__neg__ = lambda x: negative(x)
    for symbol, function in {
        "lt": less,
        "le": less_equal,
        "gt": greater,
        "ge": greater_equal,
    }.items():
        setattr(Tensor, f"__{symbol}__", lambda a, b, f=function: f(a, b))


_install_operators()
