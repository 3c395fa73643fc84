"""A named tensor: a shape of named dimensions, one global TensorFlow tensor, and its mesh."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

import numpy as np
import tensorflow as tf

from mtf_models.errors import MtfError, ShapeError
from mtf_models.mesh.dimension import Dimension, Shape, ShapeLike
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.size import Size

Result = TypeVar("Result")

_NO_KERNEL = (tf.errors.InvalidArgumentError, tf.errors.NotFoundError, TypeError, ValueError)

_NO_SUCH_DTYPE = re.compile(
    "not in (the )?list of allowed values|Could not find device for node|must be a floating point"
)
"""What TensorFlow says, eagerly or in a graph, where an operation has no such dtype."""


class Tensor:
    """A tensor whose axes have names, laid out over its mesh by the rules for its shape.

    Made by operations and by `import_tf_tensor`. `value` is the global `tf.Tensor`; `numpy()`
    brings it to the host. Python operators take tensors of one dtype, broadcast by name, and
    Python scalars.
    """

    __slots__ = ("mesh", "shape", "value")
    __array_priority__ = 100  # numpy must leave `array * tensor` to us

    def __init__(self, mesh: Mesh, shape: Shape, value: tf.Tensor) -> None:
        self.mesh = mesh
        self.shape = shape
        self.value = value

    @property
    def dtype(self) -> tf.DType:
        """The TensorFlow dtype."""
        return self.value.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.shape.size

    def numpy(self) -> np.ndarray:
        """The whole value on the host, axes in the order of `shape`."""
        return self.mesh.engine.fetch(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.numpy(), dtype=dtype)

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __repr__(self) -> str:
        return f"mtf.Tensor({self.shape}, {self.dtype.name})"


def _refuse_conversion(value: Tensor, *_: Any, **__: Any) -> NoReturn:
    raise ShapeError(
        f"TensorFlow would take {value!r} for an array, without its names and gradient. Use the "
        "operation of mtf, or say .value for the tensor on the mesh, .numpy() for the array."
    )


tf.register_tensor_conversion_function(Tensor, _refuse_conversion)


def make(mesh: Mesh, value: tf.Tensor, shape: Shape) -> Tensor:
    """Pins a computed global value in the layout of its shape and names it."""
    return Tensor(mesh, shape, mesh.pin(value, shape))


def size_value(size: int | Size) -> int | tf.Tensor:
    """A size for TensorFlow: a number, or the scalar that a graph is given when it runs."""
    return size.value if isinstance(size, Size) else size


def sizes(shape: Shape) -> list[int | tf.Tensor]:
    """The sizes of a shape for TensorFlow, in order."""
    return [size_value(d.size) for d in shape]


def static_shape(shape: Shape) -> tf.TensorShape:
    """What is known of a shape before a graph runs."""
    return tf.TensorShape([None if isinstance(d.size, Size) else d.size for d in shape])


def settle(mesh: Mesh, value: tf.Tensor, shape: Shape, whole: Iterable[Dimension]) -> Tensor:
    """Like `make`, for an operation that needs the dimensions `whole` unsplit.

    The value is pinned unsplit first: with one relayout alone the split would spread backwards
    into an operation that cannot be run split.
    """
    return make(mesh, mesh.pin(value, shape, whole), shape)


def unsplit(x: Tensor, whole: Iterable[Dimension]) -> tf.Tensor:
    """The global value of `x` with the dimensions `whole` on every device entirely."""
    return x.mesh.pin(x.value, x.shape, whole)


def operation(function: Callable[..., Result]) -> Callable[..., Result]:
    """Marks a public operation: its constants go to the mesh, its name into messages.

    A call may give the operation another name for messages, `name=`.
    """

    @functools.wraps(function)
    def run(*args: Any, name: str | None = None, **kwargs: Any) -> Result:
        mesh = _find_mesh([*args, *kwargs.values()], function.__name__)
        with mesh.running(name or function.__name__) as outermost:
            try:
                result = function(*args, **kwargs)
            except _NO_KERNEL as error:
                _refuse_dtype(function.__name__, [*args, *kwargs.values()], error)
                raise
            if outermost and mesh.is_abstract:
                values = [*args, *kwargs.values()]
                mesh.engine.note(_shapes_of(values), _shapes_of([result]))
            return result

    return run


def _refuse_dtype(name: str, values: list[Any], error: Exception) -> None:
    """Refuses by name what TensorFlow has no operation for; other errors are left."""
    if not isinstance(error, MtfError) and _NO_SUCH_DTYPE.search(str(error)):
        listed = ", ".join(f"{x.dtype.name} {x.shape}" for x in _tensors_of(values))
        raise ShapeError(
            f"mtf.{name} of {listed}: TensorFlow does not compute it in such a dtype; cast "
            "(mtf.cast, mtf.to_float)."
        ) from error


@operation
def import_tf_tensor(
    mesh: Mesh, value: Any, shape: ShapeLike, dtype: tf.DType | None = None
) -> Tensor:
    """Names the axes of a host value and lays it out over the mesh.

    Args:
        mesh: where to put it.
        value: a `tf.Tensor`, array or nested list.
        shape: the named shape, sizes equal to the value's.
        dtype: by default the value's own.

    Raises:
        ShapeError: if the sizes differ, or the value has names already.
    """
    if isinstance(value, Tensor):
        raise ShapeError(f"{value} has names already; mtf.rename_dimension or mtf.reshape it.")
    shape = Shape(shape)
    found = tuple(value.shape) if tf.is_tensor(value) else np.shape(value)
    if not static_shape(shape).is_compatible_with(found):
        raise ShapeError(
            f"A value of shape {list(found)} cannot be {shape}: the sizes must be equal, in order."
        )
    return Tensor(mesh, shape, mesh.engine.put(value, mesh.layout(shape), dtype))


def _find_mesh(values: Iterable[Any], operation_name: str) -> Mesh:
    found = [mesh for value in values for mesh in _meshes_of(value)]
    if found:
        others = [mesh for mesh in found if not mesh.is_same(found[0])]
        if others:
            raise ShapeError(
                f"mtf.{operation_name} mixes tensors of {found[0]!r} and {others[0]!r}; bring one "
                "to the other's mesh: mtf.import_tf_tensor(mesh, x.numpy(), x.shape)."
            )
        return found[0]
    raise ShapeError(
        f"mtf.{operation_name} needs an mtf.Tensor or an mtf.Mesh among its arguments."
    )


def _shapes_of(values: Iterable[Any]) -> list[Shape]:
    """The shapes of the tensors among values, and in lists of them."""
    return [x.shape for x in _tensors_of(values)]


def _tensors_of(values: Iterable[Any]) -> list[Tensor]:
    flat = [x for value in values for x in (value if isinstance(value, list | tuple) else [value])]
    return [x for x in flat if isinstance(x, Tensor)]


def _meshes_of(value: Any) -> list[Mesh]:
    if isinstance(value, list | tuple):
        return [x.mesh for x in value if isinstance(x, Tensor)]
    if isinstance(value, Tensor):
        return [value.mesh]
    return [value] if isinstance(value, Mesh) else []
