"""A stack of layers, and how it is put together from gin."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.mesh import Tensor
from mtf_models.transformer import sublayers
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer

_LEAST_ABRIDGED = 4
"""Blocks: one of them is left out, and those before and after it are there."""

Sublayer = Callable[[Tensor, "LayerStack", Context], Tensor]


@configurable(module="mesh_tensorflow.transformer.transformer")
class LayerStack:
    """Layers one after another, each wrapped in sublayers (norm, dropout, residual, ...).

    The lists of sublayers say how. Old configs give `dropout_rate` and `norm_epsilon` instead,
    which selects T5 1.0's lists, whose norms have other variable names.

    Args:
        layers: the layers, in order, each with its name.
        sublayers_initial: applied to the input.
        sublayers_per_layer: applied for each layer; one of them calls it.
        sublayers_final: applied to the output.
        dropout_rate: of the legacy lists.
        norm_epsilon: selects the legacy lists; the epsilon itself is `sublayer_rms_norm.epsilon`.
        recompute_grads: whether activations inside a layer are computed again in the backward pass
            instead of being kept.

    Raises:
        ConfigError: if only one of `dropout_rate` and `norm_epsilon` is given.
    """

    block_size: int = 0
    """How many layers make up a block, if all blocks are alike and have scopes of their own."""

    outputs_are_read: bool = False
    """Whether another stack reads what the layers give, one by one."""

    def __init__(
        self,
        layers: Sequence[TransformerLayer],
        sublayers_initial: Sequence[Sublayer] | None = None,
        sublayers_per_layer: Sequence[Sublayer] | None = None,
        sublayers_final: Sequence[Sublayer] | None = None,
        dropout_rate: float | None = None,
        norm_epsilon: float | None = None,
        recompute_grads: bool = False,
    ) -> None:
        if (dropout_rate is None) != (norm_epsilon is None):
            raise ConfigError(
                f"LayerStack.dropout_rate is {dropout_rate} and norm_epsilon is {norm_epsilon}: "
                "set both for the legacy sublayers, or neither and use the lists of sublayers."
            )
        self.layers = list(layers)
        for index, layer in enumerate(self.layers):
            layer.index = index
        self.dropout_rate = dropout_rate
        self.recompute_grads = recompute_grads
        if norm_epsilon is not None:
            sublayers_initial = sublayers.LEGACY_INITIAL
            sublayers_per_layer = sublayers.LEGACY_PER_LAYER
            sublayers_final = sublayers.LEGACY_FINAL
        self.sublayers_initial = list(sublayers_initial or ())
        self.sublayers_per_layer = list(sublayers_per_layer or (sublayers.sublayer_call_layer,))
        self.sublayers_final = list(sublayers_final or ())

    def call(self, context: Context, x: Tensor) -> Tensor:
        """Runs the stack.

        Args:
            context: mode, lengths, masks, caches.
            x: [batch, length, d_model].

        Returns:
            [batch, length, d_model], zero at padding.
        """
        x = self._apply(self.sublayers_initial, context, x)
        x = self.transform(context, x)
        x = self._apply(self.sublayers_final, context, x)
        x = context.masked(x)
        context.layer_outputs.append(x)
        return x

    def transform(self, context: Context, x: Tensor) -> Tensor:
        """What the stack does between its initial and final sublayers: the layers in order."""
        blocks = self._blocks()
        if len(blocks) < _LEAST_ABRIDGED or not self._may_abridge(context):
            return self._run(self.layers, context, x)
        first, second, *others, last = blocks
        x = self._run(first, context, x)
        told = len(context.losses) + len(context.reports)
        x = self._run(second, context, x)
        if told < len(context.losses) + len(context.reports):
            # Who called the stack adds up what each block tells.
            return self._run([*itertools.chain(*others), *last], context, x)
        name, *names = (_block_of(block[0]) for block in [second, *others, last])
        mtf.stands_for(context.mesh, name, names[:-1], names[-1])
        return self._run(last, context, x)

    def _run(self, layers: Sequence[TransformerLayer], context: Context, x: Tensor) -> Tensor:
        for layer in layers:
            x = self.call_layer(layer, context, x)
        return x

    def _blocks(self) -> list[list[TransformerLayer]]:
        """The layers by block, where each has a scope of its own and the same layers."""
        size = self.block_size
        return [self.layers[i : i + size] for i in range(0, len(self.layers), size)] if size else []

    def _may_abridge(self, context: Context) -> bool:
        """Whether one block may stand for others: nothing is computed, nor looked at one by one."""
        looked_at = self.outputs_are_read or any(x.reads_encoder_layers for x in self.layers)
        return context.mesh.is_abstract and context.mesh.engine.abridges and not looked_at

    def call_layer(self, layer: TransformerLayer, context: Context, x: Tensor) -> Tensor:
        """One layer in its scope, with the sublayers around it."""
        context.layer_index = layer.index
        context.layer_outputs.append(x)
        recomputes = self.recompute_grads and context.is_training
        return (self._recomputed if recomputes else self._kept)(layer, context, x)

    def _kept(self, layer: TransformerLayer, context: Context, x: Tensor) -> Tensor:
        with mtf.variable_scope(layer.name):
            context.layer, context.layer_input = layer, x
            return self._apply(self.sublayers_per_layer, context, x)

    def _recomputed(self, layer: TransformerLayer, context: Context, x: Tensor) -> Tensor:
        """One layer of which only the input is kept; what it adds to the loss comes out with x."""
        encoded = [] if context.encoder_output is None else [context.encoder_output]
        if layer.reads_encoder_layers:
            encoded += context.encoder_layer_outputs
        embeddings = [context.embeddings] if layer.reads_embeddings else []
        names: list[list[str]] = []
        # The context will have changed when the layer is computed again.
        now = dataclasses.replace(context)

        def run(x: Tensor, *given: Tensor) -> list[Tensor]:
            memory, seen = given[: len(encoded)], given[len(encoded) :]
            inner = now.isolated(memory[0] if memory else None, memory[1:], *seen)
            y = self._kept(layer, inner, x)
            names[:] = [list(inner.losses), list(inner.reports)]
            return [y, *inner.losses.values(), *inner.reports.values()]

        y, *scalars = mtf.recompute_grad(run, [x, *encoded, *embeddings])
        losses, reports = names
        context.take_over(
            dict(zip(losses, scalars, strict=False)),
            dict(zip(reports, scalars[len(losses) :], strict=True)),
        )
        return y

    def _apply(self, functions: Sequence[Sublayer], context: Context, x: Tensor) -> Tensor:
        for function in functions:
            x = function(x, self, context)
        return x


@configurable(module="mesh_tensorflow.transformer.transformer")
def make_layer_stack(
    layers: Sequence[Any] = REQUIRED,
    layer_stack_cls: type[LayerStack] = LayerStack,
    num_layers: int = 6,
    block_scope: bool = True,
) -> LayerStack:
    """A stack of `num_layers` blocks, each of the listed layers.

    Args:
        layers: of each block; an item is a layer class, or a tuple, in any order, of a class, a
            name for its scope and a dict of arguments.
        layer_stack_cls: what to make.
        num_layers: how many blocks.
        block_scope: whether scopes are `block_000/layer_000`; else `layer_000` counts through, and
            named layers share their weights over the blocks.

    Raises:
        ConfigError: if there is no list, or an item is something else.
    """
    require_positive("make_layer_stack", num_layers=num_layers)
    if not isinstance(layers, list | tuple):
        raise ConfigError(
            f"make_layer_stack.layers is {_shown(layers)}; write a list of layer classes, "
            "[@SelfAttention, @DenseReluDense]."
        )
    made = []
    for block in range(num_layers):
        for index, item in enumerate(layers):
            cls, name, arguments = _read_item(item)
            layer = cls(**arguments)
            if not isinstance(layer, TransformerLayer):
                raise _no_layer(item)
            number = index if block_scope else block * len(layers) + index
            local = name or f"layer_{number:03d}"
            layer.name = f"block_{block:03d}/{local}" if block_scope else local
            made.append(layer)
    stack = layer_stack_cls(made)
    stack.block_size = len(layers) if block_scope else 0
    return stack


def _block_of(layer: TransformerLayer) -> str:
    return layer.name.split("/")[0]


def _read_item(item: Any) -> tuple[Callable[..., TransformerLayer], str | None, dict[str, Any]]:
    parts = list(item) if isinstance(item, list | tuple) else [item]
    names = [part for part in parts if isinstance(part, str)]
    arguments = [part for part in parts if isinstance(part, dict)]
    classes = [part for part in parts if callable(part)]
    foreign = [c for c in classes if inspect.isclass(c) and not issubclass(c, TransformerLayer)]
    if len(classes) != 1 or foreign or len(names) > 1 or len(arguments) > 1 or len(parts) > 3:
        raise _no_layer(item)
    return classes[0], (names or [None])[0], (arguments or [{}])[0]


def _no_layer(item: Any) -> ConfigError:
    return ConfigError(
        f"make_layer_stack.layers has the item {_shown(item)}; an item is a layer class, or a "
        "tuple of a layer class, a name and a dict of arguments."
    )


def _shown(item: Any) -> str:
    """As gin would write it, where it can."""
    if isinstance(item, TransformerLayer):
        return f"@{type(item).__name__}()"
    return f"@{item.__name__}" if hasattr(item, "__name__") else repr(item)
