"""Variables: known by their full scope name, specified first, allocated straight into layout."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from mtf_models.errors import ShapeError
from mtf_models.mesh import initializers, scopes
from mtf_models.mesh.dimension import Shape, ShapeLike, convert_to_shape
from mtf_models.mesh.dtype import DTypeLike, VariableDType, as_dtype, convert_to_variable_dtype
from mtf_models.mesh.elementwise import cast
from mtf_models.mesh.engines.recorder import READ_NAME, RecorderEngine, StandIn
from mtf_models.mesh.initializers import Initializer
from mtf_models.mesh.layout import Layout, tensor_layout
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.reshape import transpose
from mtf_models.mesh.tensor import Tensor


@dataclass(frozen=True)
class VariableSpec:
    """What a variable is before it is allocated."""

    name: str
    shape: Shape
    dtype: VariableDType
    initializer: Initializer
    trainable: bool


class Variable:
    """A named, persistent tensor.

    Attributes:
        name: its full scope name, which is its name in checkpoints.
        shape: its named shape.
        trainable: whether optimizers update it.
        activations: the dtypes that it has been asked for in.
    """

    def __init__(self, store: VariableStore, spec: VariableSpec) -> None:
        self._store = store
        self.spec = spec
        self.name = spec.name
        self.shape = spec.shape
        self.trainable = spec.trainable
        self.activations = {spec.dtype.activation}
        self._held: tf.Variable | StandIn | None = None

    @property
    def dtype(self) -> tf.DType:
        """The dtype that the device keeps."""
        return self.spec.dtype.slice

    @property
    def layout(self) -> Layout:
        """For each dimension the mesh axis that it is split over, or None."""
        return self._store.mesh.layout(self.shape)

    @property
    def is_allocated(self) -> bool:
        """Whether the variable has a value yet."""
        return self._held is not None

    @property
    def held(self) -> tf.Variable | StandIn:
        """The TensorFlow variable; allocated with its initial value at the first call."""
        self.allocate()
        return self._held

    def allocate(self) -> None:
        """Gives the variable its initial value, if it has none."""
        if self._held is None and self._store.mesh.is_abstract:
            self._held = self.stand_in_on(self._store.mesh)
        elif self._held is None:
            self._held = self._allocate(self._initial_value())

    def stand_in_on(self, mesh: Mesh) -> StandIn:
        """What stands for the variable in an abstract pass over `mesh`."""
        engine = mesh.engine if mesh.is_abstract else RecorderEngine()
        # Not `mesh.layout`, which would report again what was checked.
        layout = tensor_layout(self.shape, mesh.rules, mesh.axes)
        return engine.stand_in(self.name, self.shape.to_integer_list, self.dtype, layout)

    def free(self) -> None:
        """Forgets the value; the next use begins with the initial one."""
        self._held = None

    @property
    def value(self) -> Tensor:
        """The present value, in the dtype that the device keeps."""
        mesh = self._store.mesh
        with mesh.calling():
            return Tensor(mesh, self.shape, tf.identity(self.held))

    def numpy(self) -> np.ndarray:
        """The present value on the host."""
        return self._store.mesh.engine.fetch(self.held)

    def assign(self, value: Any) -> None:
        """Replaces the value.

        Args:
            value: an array or tensor of this variable's sizes, or an `mtf.Tensor` of its
                dimensions in any order.

        Raises:
            ShapeError: if the sizes or dimensions differ.
        """
        if isinstance(value, Tensor):
            value = transpose(value, self.shape)
            value = value.value if value.mesh is self._store.mesh else value.numpy()
        found = list(value.shape) if hasattr(value, "shape") else list(np.shape(value))
        if found != self.shape.to_integer_list:
            raise ShapeError(f"{self.name} is {self.shape}; a value of shape {found} does not fit.")
        mesh = self._store.mesh
        with mesh.calling():
            new = mesh.engine.put(value, self.layout)
            new = new if new.dtype == self.dtype else tf.cast(new, self.dtype)
            if self._held is None:
                self._held = mesh.engine.make_variable(new, self.layout, self.name)
            else:
                self._held.assign(new)

    def _initial_value(self) -> tf.Tensor:
        with tf.init_scope(), tf.device("CPU:0"):
            seed = initializers.seed_for(self.name, self._store.seed)
            value = self.spec.initializer(self.shape.to_integer_list, seed)
            return tf.cast(value, self.dtype)

    def _allocate(self, initial: tf.Tensor) -> tf.Variable:
        mesh = self._store.mesh
        with tf.init_scope(), mesh.calling():
            return mesh.engine.make_variable(
                mesh.engine.put(initial, self.layout), self.layout, self.name
            )

    def __repr__(self) -> str:
        return f"mtf.Variable({self.name!r}, {self.shape}, {self.dtype.name})"


class VariableStore:
    """The variables of one model on one mesh, by name.

    A first abstract pass of the model under `collecting` finds all specifications; the variables
    are allocated when first read. Under `serving`, `get_variable` takes values from a table that
    was read once, so that gradients with respect to the table are those of the variables.

    Args:
        mesh: where the variables live.
        seed: determines the initial values, together with the names.
    """

    def __init__(self, mesh: Mesh, seed: int = 0) -> None:
        self.mesh = mesh
        self.seed = seed
        self.variables: dict[str, Variable] = {}

    def add(self, spec: VariableSpec) -> Variable:
        """Notes a variable; one of this name and shape that exists already is returned.

        Raises:
            ShapeError: if the name is taken by a variable of another shape.
        """
        existing = self.variables.get(spec.name)
        if existing is None:
            existing = self.variables[spec.name] = Variable(self, spec)
        elif existing.shape != spec.shape:
            raise ShapeError(
                f"Variable {spec.name} is {existing.shape} and is asked for as {spec.shape}. Two "
                "uses of one name share the variable; give one of them another scope."
            )
        existing.activations.add(spec.dtype.activation)
        return existing

    def allocate(self) -> None:
        """Gives every variable that has no value its initial one."""
        for variable in self.variables.values():
            variable.allocate()

    def specified_on(self, mesh: Mesh) -> VariableStore:
        """Variables of the same names and shapes on another mesh, without values."""
        store = VariableStore(mesh, self.seed)
        for variable in self.variables.values():
            store.add(variable.spec).activations.update(variable.activations)
        return store

    def read(self) -> dict[str, tf.Tensor]:
        """Every value, read once, for one step."""
        return {name: tf.convert_to_tensor(v.held) for name, v in self.variables.items()}

    def in_activation_dtypes(self, table: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Values as `get_variable` returns them, cast once; gradients by them are as narrow.

        A variable that is asked for in several dtypes stays as it is.

        Args:
            table: what `read` gave.
        """
        found = dict(table)
        for name, value in table.items():
            variable = self.variables[name]
            if len(variable.activations) == 1:
                (dtype,) = variable.activations
                named = Tensor(self.mesh, variable.shape, value)
                with scopes.entered(name):
                    found[name] = cast(named, dtype, name=READ_NAME).value
        return found

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """`get_variable` inside notes specifications and returns symbolic stand-ins.

        Everything inside is symbolic: it goes to the current `tf.Graph`, or one of its own.
        """
        graph = tf.Graph().as_default() if tf.executing_eagerly() else contextlib.nullcontext()
        with graph, _use(_Source(self, None)):
            yield

    @contextlib.contextmanager
    def serving(self, table: Mapping[str, tf.Tensor]) -> Iterator[None]:
        """`get_variable` inside returns values of `table`, cast once each."""
        with _use(_Source(self, table)):
            yield

    @contextlib.contextmanager
    def eager(self) -> Iterator[None]:
        """`get_variable` inside makes variables as they are asked for and returns their values."""
        with _use(_Source(self, {}, makes_variables=True)):
            yield


class _Source:
    """Where `get_variable` looks: a table of values, or nowhere in an abstract pass.

    With `outer` the values are those of another source, without their gradients, and `used` holds
    them as they came from there.
    """

    def __init__(
        self,
        store: VariableStore,
        table: Mapping[str, tf.Tensor] | None,
        outer: _Source | None = None,
        makes_variables: bool = False,
    ) -> None:
        self.store = store
        self.table = table
        self.outer = outer
        self.makes_variables = makes_variables
        self.used: dict[str, tf.Tensor] = {}
        self._cast: dict[tuple[str, tf.DType], Tensor] = {}

    def get(self, mesh: Mesh, spec: VariableSpec) -> Tensor:
        """The value of a variable in its activation dtype."""
        key = (spec.name, spec.dtype.activation)
        variable = self.store.add(spec)
        if key not in self._cast:
            with mesh.running("get_variable"):
                value = self._value(mesh, variable)
                self._cast[key] = cast(Tensor(mesh, spec.shape, value), spec.dtype.activation)
        return self._cast[key]

    def _value(self, mesh: Mesh, variable: Variable) -> tf.Tensor:
        if self.outer is not None:
            value = self.used[variable.name] = self.outer._value(mesh, variable)
            return tf.stop_gradient(value)
        if self.table is None:
            mesh.check(variable.shape, variable.name)
            return variable.stand_in_on(mesh).value
        if variable.name in self.table:
            return self.table[variable.name]
        if not self.makes_variables:
            raise ShapeError(
                f"Variable {variable.name} is read now and was not in the first pass over the "
                "model, so nothing would train it: read the same variables in every mode."
            )
        return tf.convert_to_tensor(variable.held)


class _Active(threading.local):
    source: _Source | None = None


_active = _Active()


@contextlib.contextmanager
def _use(source: _Source) -> Iterator[_Source]:
    saved, _active.source = _active.source, source
    try:
        yield source
    finally:
        _active.source = saved


class Uses(NamedTuple):
    """The variables that a computation read, by name, and the store that they are in."""

    store: VariableStore | None
    values: dict[str, tf.Tensor]


@contextlib.contextmanager
def recording_uses() -> Iterator[Uses]:
    """Variables read inside have no gradients; yields a table that holds them, with, at the end."""
    current = _active.source
    if current is None:
        yield Uses(None, {})
        return
    with _use(_Source(current.store, None, current)) as source:
        yield Uses(current.store, source.used)


@contextlib.contextmanager
def substituting(uses: Uses, values: Sequence[tf.Tensor]) -> Iterator[None]:
    """The variables of `uses` have these values inside, wherever this is."""
    if uses.store is None:
        yield
        return
    with uses.store.serving(dict(zip(uses.values, values, strict=True))):
        yield


class StoreInUse(NamedTuple):
    """Where `get_variable` takes variables from.

    Attributes:
        store: the store.
        table: the values that it gives, by name; None in an abstract pass.
        makes_variables: whether it makes those that are not there.
    """

    store: VariableStore
    table: Mapping[str, tf.Tensor] | None
    makes_variables: bool


def store_in_use(asked_by: str) -> StoreInUse:
    """What `get_variable` takes from just now.

    Args:
        asked_by: who needs it, for the message.

    Raises:
        ShapeError: if no store is in use.
    """
    source = _active.source
    if source is None:
        raise ShapeError(
            f"mtf.{asked_by} needs a store of variables: call it under `with store.eager():` or "
            "`with store.serving(store.read()):`."
        )
    store = source.store
    table = None if source.table is None else {**store.read(), **source.table}
    return StoreInUse(store, table, source.makes_variables)


def specify_again(scope: str, other: str) -> None:
    """Specifies in another scope the variables that the store in use has in one."""
    source = _active.source
    if source is None:
        return
    store = source.store
    for name, variable in list(store.variables.items()):
        if name.startswith(f"{scope}/"):
            spec = dataclasses.replace(variable.spec, name=other + name[len(scope) :])
            store.add(spec).activations.update(variable.activations)


def weights_in_use() -> int:
    """How many numbers the variables hold that `get_variable` takes values from."""
    source = _active.source
    return sum(v.shape.size for v in source.store.variables.values()) if source else 0


def get_variable(
    mesh: Mesh,
    name: str,
    shape: ShapeLike,
    dtype: VariableDType | DTypeLike = tf.float32,
    initializer: Initializer | None = None,
    trainable: bool = True,
    master_dtype: DTypeLike | None = None,
    slice_dtype: DTypeLike | None = None,
    activation_dtype: DTypeLike | None = None,
) -> Tensor:
    """The value of the variable `name` under the current scope.

    The full scope name is its identity: asking again returns the same variable, which is how
    layers share weights, and it is the name in checkpoints.

    Args:
        mesh: where it lives.
        name: its name under the current `variable_scope`.
        shape: its named shape, without what `stacked_variables` puts in front.
        dtype: one dtype, or master, slice and activation dtype.
        initializer: by default Glorot uniform.
        trainable: whether optimizers update it.
        master_dtype: overrides the dtype in checkpoints.
        slice_dtype: overrides the dtype that devices keep.
        activation_dtype: overrides the dtype that is returned.

    Returns:
        A tensor in the activation dtype.

    Raises:
        ShapeError: if the name is taken in another shape, or no variable store is in use.
    """
    if _active.source is None:
        raise ShapeError(
            f"mtf.get_variable({name!r}) needs a store to keep the variable in: call it in a "
            "model, or under `with mtf.VariableStore(mesh).eager():`."
        )
    shape = convert_to_shape(shape)
    default = None if initializer else initializers.glorot_uniform(shape)
    dtypes = convert_to_variable_dtype(dtype)
    given = {"master": master_dtype, "slice": slice_dtype, "activation": activation_dtype}
    dtypes = dtypes._replace(**{k: as_dtype(v) for k, v in given.items() if v is not None})
    spec = VariableSpec(
        scopes.full_name(name),
        Shape([*scopes.stacked_dims(), *shape]),
        dtypes,
        initializer or default,
        trainable,
    )
    return _active.source.get(mesh, spec)
