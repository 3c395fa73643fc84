"""Checks what every layer must keep: layouts, gradients, bfloat16, checkpoints, recomputation."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_models.checkpoint import CheckpointManager
from mtf_models.errors import ConfigError
from mtf_models.mesh.dimension import Dimension, Shape
from mtf_models.mesh.dtype import VariableDType
from mtf_models.mesh.elementwise import add_n, to_float
from mtf_models.mesh.gradient import gradients, recompute_grad
from mtf_models.mesh.indexing import mtf_range
from mtf_models.mesh.layout import Fault
from mtf_models.mesh.tensor import Tensor, import_tf_tensor
from mtf_models.mesh.variable import VariableStore
from mtf_models.testing.check import Inputs, Placements
from mtf_models.testing.layouts import ONE_DEVICE, Placement, most_split
from mtf_models.testing.outcome import (
    Outcome,
    as_list,
    assert_laid_out,
    check_modes,
    cotangent,
    differences,
    rounded,
    tensors,
    weighted_sum,
)
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer

Layer = Callable[..., Tensor | Sequence[Tensor]] | type[TransformerLayer] | TransformerLayer
Variables = Mapping[str, np.ndarray]
Reference = Callable[..., np.ndarray | Sequence[np.ndarray]]

PROMISES = ("layouts", "gradients", "bfloat16", "checkpoint", "recompute")


def check_layer(
    layer: Layer,
    inputs: Inputs,
    reference: Reference | None = None,
    *,
    placements: Sequence[Placement] | Placements | None = None,
    modes: Sequence[str] = ("eager", "compiled"),
    promises: Sequence[str] = PROMISES,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    bfloat16_tolerance: float = 0.05,
    seed: int = 0,
    noise: float = 0.0,
) -> None:
    """Asserts of a layer what is promised of every one.

    - `layouts`: initial values are equal on every layout to the bit; results and the gradients by
      inputs and variables are, to the tolerance, eager and compiled, and lie as the rules say;
    - `gradients`: the gradient on one device has the slope of the results along a random direction;
    - `bfloat16`: with bfloat16 inputs and activations the results are near;
    - `checkpoint`: what is saved on one device and restored on the last layout is the same;
    - `recompute`: inside of `mtf.recompute_grad` the layer and its gradients are the same.

    Args:
        layer: takes the inputs as `mtf.Tensor`s, in order, reads its variables by
            `mtf.get_variable` and returns a tensor or several; or a `TransformerLayer`, or the
            class of one, which gin binds: then the one input is [batch, length, d_model].
        inputs: for each name a named shape and an array; float64 is rounded to float32 first.
        reference: takes a mapping of the variables' values by name, and the arrays, and returns
            what the layer must. By default the layer on one device.
        placements: where to run, checkpoints on the last, or a function that chooses layouts that
            fit all tensors: `most_split`, which is the default, `covering` or `all_admissible`.
        modes: how to run, "eager", "compiled" or both.
        promises: which of the above to check.
        rtol: relative tolerance.
        atol: absolute tolerance, times the largest magnitude that is expected where above 1.
        bfloat16_tolerance: both tolerances in bfloat16.
        seed: of the initial values.
        noise: the scale of what is added to initial values, for layers that begin as 0.

    Raises:
        AssertionError: listing everything that is not kept.
        ConfigError: if a promise or a mode has another name.
        ShapeError: if the layer returns something else than named tensors.
    """
    _check_names(promises, modes)
    check = _Check(_as_function(layer), inputs, rtol, atol, seed, noise)
    faults = check.against(reference) if reference is not None else []
    if "layouts" in promises:
        faults += check.on_layouts(placements or most_split, modes)
    if "gradients" in promises:
        faults += check.slope()
    if "bfloat16" in promises:
        faults += check.in_bfloat16(bfloat16_tolerance)
    if "checkpoint" in promises:
        faults += check.through_a_checkpoint(placements or most_split)
    if "recompute" in promises:
        faults += check.recomputed(modes)
    if faults:
        raise AssertionError("\n".join(faults))


def _check_names(promises: Sequence[str], modes: Sequence[str]) -> None:
    check_modes(modes)
    unknown = [name for name in promises if name not in PROMISES]
    if unknown:
        names = ", ".join(unknown)
        raise ConfigError(f"No promise is called {names}; known: {', '.join(sorted(PROMISES))}.")


class _Check:
    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Inputs,
        rtol: float,
        atol: float,
        seed: int,
        noise: float,
    ) -> None:
        self.function, self.inputs, self.seed = function, inputs, seed
        self.tolerances = rtol, atol
        self.arrays = {name: rounded(array) for name, (_, array) in inputs.items()}
        self.shapes = {name: Shape(shape) for name, (shape, _) in inputs.items()}
        self.store = self.new_store(ONE_DEVICE)
        self.initial = {name: v.numpy() for name, v in self.store.variables.items()}
        random = np.random.default_rng(seed)
        self.values = {
            name: (value + noise * random.normal(size=value.shape)).astype(value.dtype)
            for name, value in self.initial.items()
        }
        self.assign(self.store)
        self.expected = self.run(self.store)

    def new_store(self, placement: Placement) -> VariableStore:
        """The variables with their initial values."""
        store = VariableStore(placement.make(), self.seed)
        self._collect(store)
        store.allocate()
        return store

    def assign(self, store: VariableStore) -> None:
        """Gives the variables the values that the layer is checked with."""
        for name, value in self.values.items():
            store.variables[name].assign(value)

    def fits(self, placement: Placement) -> bool:
        """Whether all tensors inside of the layer can be laid out so."""
        return not self._collect(VariableStore(placement.make()))

    def _collect(self, store: VariableStore) -> list[Fault]:
        """Notes the variables, and returns what of the layer cannot be laid out."""
        nowhere = store.mesh.abstract()
        with store.collecting():
            tensors = [
                import_tf_tensor(nowhere, array, self.shapes[name])
                for name, array in self.arrays.items()
            ]
            self.function(*tensors)
        return nowhere.engine.faults

    def split(self, choose: Placements) -> list[Placement]:
        """Placements for the shapes of inputs, results and variables, and for those inside."""
        variables = [v.shape for v in self.store.variables.values()]
        known = [*self.shapes.values(), *self.expected.shapes, *variables]
        return choose(known, fits=self.fits)

    def run(
        self,
        store: VariableStore,
        compiled: bool = False,
        arrays: Mapping[str, np.ndarray] | None = None,
        function: Callable[..., Any] | None = None,
    ) -> Outcome:
        """Results, and gradients by the floating inputs and the trainable variables."""
        mesh, function = store.mesh, function or self.function
        held = {
            name: import_tf_tensor(mesh, array, self.shapes[name]).value
            for name, array in (arrays or self.arrays).items()
        }
        by_input = [name for name, value in held.items() if value.dtype.is_floating]
        by_variable = [name for name, v in store.variables.items() if v.trainable]
        shapes: list[Shape] = []

        def step(
            values: dict[str, tf.Tensor], table: dict[str, tf.Tensor]
        ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
            named = {name: Tensor(mesh, self.shapes[name], v) for name, v in values.items()}
            sources = [named[name] for name in by_input]
            sources += [Tensor(mesh, store.variables[n].shape, table[n]) for n in by_variable]
            with tf.GradientTape() as tape, store.serving(table):
                tape.watch([x.value for x in sources])
                results = tensors(function(*named.values()))
                shapes[:] = [x.shape for x in results]
                floating = [to_float(weighted_sum(x)) for x in results if x.dtype.is_floating]
                loss = add_n(floating)
            slopes = gradients(tape, loss, sources)
            return [x.value for x in results], [g.value for g in slopes]

        with mesh.calling():
            table = store.read()
            if compiled:
                step = tf.function(step, autograph=False).get_concrete_function(held, table)
            values, slopes = step(held, table)
        names = [*by_input, *by_variable]
        sources = [*(self.shapes[n] for n in by_input)]
        sources += [store.variables[n].shape for n in by_variable]
        assert_laid_out(mesh, [*shapes, *sources], [*values, *slopes])
        fetch = mesh.engine.fetch
        found = {n: fetch(g) for n, g in zip(names, slopes, strict=True)}
        return Outcome(list(shapes), [fetch(v) for v in values], found)

    def compared(self, where: str, found: Outcome, expected: Outcome | None = None) -> list[str]:
        """What differs from the layer on one device, a line each."""
        lines = differences(found, expected or self.expected, *self.tolerances)
        return [f"{where}: {line}" for line in lines]

    def against(self, reference: Reference) -> list[str]:
        """Compares the results with those of the reference."""
        right = [np.asarray(y) for y in as_list(reference(self.values, *self.arrays.values()))]
        found = Outcome(self.expected.shapes, self.expected.values, {})
        return self.compared("one device, reference", found, Outcome([], right, {}))

    def on_layouts(
        self, placements: Sequence[Placement] | Placements, modes: Sequence[str]
    ) -> list[str]:
        """Compares initial values, results and gradients over layouts."""
        if callable(placements):
            placements = self.split(placements)
        faults = []
        for placement in placements:
            store = self.new_store(placement)
            for name, value in self.initial.items():
                if not np.array_equal(store.variables[name].numpy(), value):
                    faults.append(f"{placement}: {name} begins with other values")
            self.assign(store)
            for mode in modes:
                try:
                    found = self.run(store, compiled=mode == "compiled")
                except Exception as error:
                    error.add_note(f"On {placement}, {mode}.")
                    raise
                faults += self.compared(f"{placement}, {mode}", found)
        return faults

    def slope(self) -> list[str]:
        """Compares the gradient with the difference of two runs along a random direction."""
        step, random = 1e-2, np.random.default_rng(0)
        names = list(self.expected.gradients)
        way = {n: random.normal(size=self.expected.gradients[n].shape) for n in names}
        length = np.sqrt(sum(np.square(w).sum() for w in way.values()))
        way = {n: (w / length).astype(np.float32) for n, w in way.items()}

        def loss(sign: int) -> float:
            arrays = {n: a + sign * step * way.get(n, 0) for n, a in self.arrays.items()}
            arrays = {n: a.astype(self.arrays[n].dtype) for n, a in arrays.items()}
            for name, value in self.values.items():
                self.store.variables[name].assign(value + sign * step * way.get(name, 0))
            results = self.run(self.store, arrays=arrays).values
            return sum(
                float((y.astype(np.float64) * cotangent(y.shape)).sum())
                for y in results
                if y.dtype.kind == "f"
            )

        found = (loss(1) - loss(-1)) / (2 * step)
        self.assign(self.store)
        told = sum(float((self.expected.gradients[n] * way[n]).sum()) for n in names)
        scale = max(1.0, abs(told), abs(found))
        if abs(found - told) <= 0.02 * scale:
            return []
        return [f"one device: the slope along a direction is {found}, its gradient says {told}"]

    def in_bfloat16(self, tolerance: float) -> list[str]:
        """Compares the results with bfloat16 inputs."""
        narrow = {
            n: tf.cast(a, tf.bfloat16).numpy() if a.dtype.kind == "f" else a
            for n, a in self.arrays.items()
        }
        found = self.run(self.store, arrays=narrow)
        values = [
            v.astype(np.float32) if right.dtype.kind == "f" else v
            for v, right in zip(found.values, self.expected.values, strict=True)
        ]
        right = Outcome(self.expected.shapes, self.expected.values, {})
        lines = differences(Outcome(found.shapes, values, {}), right, tolerance, tolerance)
        return [f"one device, bfloat16: {line}" for line in lines]

    def through_a_checkpoint(self, placements: Sequence[Placement] | Placements) -> list[str]:
        """Saves on one device, restores where most is split, and compares the values."""
        if not self.values:
            return []
        chosen = self.split(placements) if callable(placements) else placements
        other = self.new_store(chosen[-1])
        for variable in other.variables.values():
            variable.assign(np.zeros(variable.shape.to_integer_list, np.float32))
        with tempfile.TemporaryDirectory() as folder:
            manager = CheckpointManager(folder)
            manager.save(1, self.store.variables)
            manager.restore(1, other.variables)
        return [
            f"{chosen[-1]}: {name} is not restored to what was saved"
            for name, value in self.values.items()
            if not np.array_equal(other.variables[name].numpy(), value)
        ]

    def recomputed(self, modes: Sequence[str]) -> list[str]:
        """Compares the layer with what it gives without keeping intermediate values."""
        faults = []
        for mode in modes:
            found = self.run(
                self.store,
                compiled=mode == "compiled",
                function=lambda *xs: recompute_grad(self.function, xs),
            )
            faults += self.compared(f"one device, recomputed, {mode}", found)
        return faults


def _as_function(layer: Layer) -> Callable[..., Any]:
    """A function of named tensors, of a transformer's layer or its class too."""
    if isinstance(layer, type) and issubclass(layer, TransformerLayer):
        layer = layer()
    if not isinstance(layer, TransformerLayer):
        return layer

    def call(x: Tensor) -> Tensor:
        return layer.call(context_of(x), x)

    return call


def context_of(
    x: Tensor, mode: str = "eval", autoregressive: bool = False, **options: Any
) -> Context:
    """A context for a transformer's layer that is called alone.

    Args:
        x: [batch, length, d_model].
        mode: "train" or "eval".
        autoregressive: whether no position may see what comes after it.
        **options: more attributes of `Context`, such as `sequence_id` where there is padding, and
            `encoder_output` for a layer that attends to an encoder.
    """
    _, length, d_model = x.shape.dims
    return Context(
        mesh=x.mesh,
        mode=mode,
        variable_dtype=VariableDType(activation=x.dtype),
        length_dim=length,
        memory_length_dim=Dimension("memory_length", length.size),
        d_model=d_model,
        position=mtf_range(x.mesh, length),
        autoregressive=autoregressive,
        **options,
    )
