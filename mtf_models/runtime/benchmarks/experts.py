"""How long a mixture of experts takes, beside the bare products of its experts and one-hot tensors.

All three compute 2,048 tokens of width 512 with experts of hidden width 1,024 and capacity factor
1.25, forward and backward, in turn, so that whatever else the machine does falls on all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.runtime.benchmarks.figures import (
    of_this_machine,
    seconds,
    spread,
    spread_text,
    write,
)
from mtf_models.runtime.benchmarks.idle_options import refuse_idle
from mtf_models.runtime.options import BenchOptions
from mtf_models.transformer.context import Context
from mtf_models.transformer.moe.layer import MoE1D

_BATCH, _LENGTH, _D_MODEL, _HIDDEN = 4, 512, 512, 1024
_EXPERTS = (8, 64)
_DTYPES = (tf.bfloat16, tf.float32)
_ROUNDS = 20

Table = dict[str, tf.Tensor]


def run(options: BenchOptions) -> None:
    """Times the three and prints the figures.

    Raises:
        ConfigError: for options that do nothing here.
    """
    refuse_idle(options, "a layer of fixed sizes")
    rounds = options.steps or _ROUNDS
    figures = {
        **of_this_machine(),
        "tokens": _BATCH * _LENGTH,
        "d_model": _D_MODEL,
        "d_ff": _HIDDEN,
        "capacity_factor": 1.25,
        "rounds": rounds,
        "runs": [time_experts(n, dtype, rounds) for n in _EXPERTS for dtype in _DTYPES],
    }
    print(_text(figures))
    write(figures, options.json)


def time_experts(experts: int, dtype: tf.DType, rounds: int) -> dict[str, Any]:
    """Times a Switch layer, its experts' bare products, and the layer by one-hot products.

    Args:
        experts: how many there are.
        dtype: of activations and weights.
        rounds: how often each is timed.

    Returns:
        Median milliseconds of each, and the median over the rounds of their ratios to the bare
        products.
    """
    case = _Case(experts, dtype)
    functions = {"layer": case.layer, "one_hot": case.one_hot, "bare": case.bare}
    calls = {name: case.compiled(function) for name, function in functions.items()}
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call))
    figures: dict[str, Any] = {"experts": experts, "dtype": dtype.name, "capacity": case.capacity}
    for name, taken in times.items():
        figures |= spread(f"{name}_ms", [1e3 * t for t in taken], 2)
    for name in ("layer", "one_hot"):
        ratios = [a / b for a, b in zip(times[name], times["bare"], strict=True)]
        figures[f"{name}_ratio"] = round(statistics.median(ratios), 3)
        figures[f"{name}_ratio_of_least"] = round(min(times[name]) / min(times["bare"]), 3)
    return figures


class _Case:
    """The three computations on the same random tokens and weights."""

    def __init__(self, experts: int, dtype: tf.DType) -> None:
        self.mesh = Mesh()
        self.dtype = VariableDType(activation=dtype)
        self.mixture = MoE1D(
            num_experts=experts,
            hidden_size=_HIDDEN,
            group_size=_BATCH * _LENGTH,
            moe_gating="switch",
            switch_policy_train="argmax",
        )
        self.capacity = self.mixture.capacity(_BATCH * _LENGTH, training=True)
        self.tokens = Shape(f"batch:{_BATCH} length:{_LENGTH} d_model:{_D_MODEL}")
        self.slots = Shape(f"experts:{experts} expert_capacity:{self.capacity} d_model:{_D_MODEL}")
        shapes = {
            "switch_gating/kernel": f"d_model:{_D_MODEL} expert_unsplit:{experts}",
            "wi/kernel": f"experts:{experts} d_model:{_D_MODEL} expert_hidden:{_HIDDEN}",
            "wo/kernel": f"experts:{experts} expert_hidden:{_HIDDEN} d_model:{_D_MODEL}",
        }
        self.store = mtf.VariableStore(self.mesh)
        self._shapes = {n: Shape(s) for n, s in shapes.items()}

    def layer(self, x: Tensor) -> Iterator[Tensor]:
        """The layer as models run it, with its losses."""
        context = self._context(x)
        yield self.mixture.call(context, x)
        yield from context.losses.values()

    def one_hot(self, x: Tensor) -> Iterator[Tensor]:
        """The same with products of one-hot tensors in the place of gathers."""
        context = self._context(x)
        groups, routes = self.mixture.route(context, x)
        *outer, experts, capacity = routes.entries.shape.dims
        slot = Dimension("slot", experts.size * capacity.size)
        hot = mtf.one_hot(routes.slots, slot, dtype=x.dtype)
        there = Shape([*outer, slot, x.shape.dims[-1]])
        at_experts = mtf.einsum([groups.split(x), hot], there)
        at_experts = mtf.reshape(at_experts, self.slots)
        made = mtf.reshape(self.mixture.experts(context, at_experts)[0], there)
        combine = mtf.multiply(hot, mtf.cast(routes.weights, x.dtype), output_shape=hot.shape)
        yield groups.join(mtf.einsum([made, combine], groups.split(x).shape))
        yield from context.losses.values()

    def bare(self, x: Tensor) -> Iterator[Tensor]:
        """What the experts compute, on as many tokens as they have slots."""
        yield self.mixture.experts(self._context(x), x)[0]

    def compiled(self, function: Callable[[Tensor], Iterator[Tensor]]) -> Callable[[], np.ndarray]:
        """A call of one forward and backward computation, compiled and run once.

        It returns the sum of what `function` gives: the gradient of a sum needs no value of it, so
        that TensorFlow would leave the last products out where nobody asks for it.
        """
        shape = self.slots if function == self.bare else self.tokens
        x = self._drawn(shape)
        table = {n: self._drawn(s) * s.dims[-2].size ** -0.5 for n, s in self._shapes.items()}

        def step(value: tf.Tensor, table: Table) -> list[tf.Tensor]:
            with tf.GradientTape() as tape, self.store.serving(table):
                tape.watch([value, *table.values()])
                outputs = list(function(Tensor(self.mesh, shape, value)))
                loss = mtf.add_n([mtf.reduce_sum(mtf.to_float(y)) for y in outputs])
            found = tape.gradient(loss.value, [value, *table.values()])
            return [loss.value, *(g for g in found if g is not None)]

        compiled = tf.function(step, autograph=False)
        compiled(x, table)
        return lambda: compiled(x, table)[0].numpy()

    def _drawn(self, shape: Shape) -> tf.Tensor:
        rng = np.random.default_rng(shape.size)
        array = rng.normal(size=shape.to_integer_list).astype(np.float32)
        return tf.cast(array, self.dtype.activation)

    def _context(self, x: Tensor) -> Context:
        length = Dimension("length", _LENGTH)
        return Context(
            mesh=self.mesh,
            mode="train",
            variable_dtype=self.dtype,
            length_dim=length,
            memory_length_dim=Dimension("memory_length", _LENGTH),
            d_model=x.shape.dims[-1],
            position=mtf.mtf_range(self.mesh, length),
            autoregressive=False,
        )


def _text(figures: dict[str, Any]) -> str:
    lines = [
        f"machine     {figures['machine']}, {figures['date']}",
        f"layer       {figures['tokens']:,} tokens, d_model {figures['d_model']}, d_ff "
        f"{figures['d_ff']}, capacity factor {figures['capacity_factor']}, forward and backward",
    ]
    for run in figures["runs"]:
        lines.append(
            f"{run['experts']:>2} experts  {run['dtype']:<8}  {spread_text(run, 'layer_ms')} ms, "
            f"x {run['layer_ratio']} of the bare products; by one-hot products x "
            f"{run['one_hot_ratio']}"
        )
    return "\n".join(lines)
