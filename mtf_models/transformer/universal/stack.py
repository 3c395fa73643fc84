"""The stack whose layers are used again at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.normalization import layer_norm
from mtf_models.mesh import Tensor
from mtf_models.transformer import sublayers
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.stack import LayerStack
from mtf_models.transformer.universal.gates import gated_recurrent_unit, highway
from mtf_models.transformer.universal.halting import adaptive_computation
from mtf_models.transformer.universal.timing import joined, position_signal, step_signal

_CHOICES = {
    "recurrence_type": ("act", "basic", "highway"),
    "act_type": ("basic", "global", "random", "accumulated"),
    "add_or_concat_timing_signal": ("add", "concat"),
    "step_timing_signal_type": ("learned", "sinusoid"),
    "position_start_index": (None, "random", "step"),
    "gate_ffn_layer": ("dense", "dense_relu_dense"),
    "gating_type": ("highway", "gru"),
}


@configurable(module="mesh_tensorflow.transformer.universal_transformer")
@dataclass(eq=False)
class UTLayerStack(LayerStack):
    """A universal transformer (Dehghani et al. 2019): its layers are one step of a recurrence.

    Norms are `layers.normalization.layer_norm`, before each layer and at the end.

    Args:
        layers: of one step, in order.
        dropout_rate: after each layer, at the beginning and at the end.
        norm_epsilon: of the norms.
        num_vanilla_transformer_layers: how often the layers are used, each time with weights of
            their own, where a transformer comes before or after the recurrence.
        couple_carry_transform_gates: see `gates.highway`.
        act_type: see `halting.adaptive_computation`.
        recurrence_type: "basic" (`num_rec_steps` steps), "highway" (the same, with a gate between
            the state before and after each step) or "act" (adaptive computation time).
        act_max_steps: how many steps of "act" have a signal; as in the original, which checkpoints
            depend on, one more without a signal follows.
        act_epsilon: see `halting.adaptive_computation`.
        num_rec_steps: how many steps the other two make.
        num_inrecurrence_layers: how often the layers are used in a step, each time with weights of
            their own.
        position_start_index: see `timing.position_signal`.
        add_or_concat_timing_signal: see `timing.joined`.
        step_timing_signal_type: see `timing.step_signal`.
        add_position_timing_signal: whether every step is told the positions.
        add_step_timing_signal: whether every step is told its number.
        mix_with_transformer_before_ut: whether a transformer comes before the recurrence.
        mix_with_transformer_after_ut: whether one comes after it.
        gates_inputs: what the gate of "highway" sees, a string of "i" (the input of the
            recurrence), "s" (the state before the step) and "t" (the state after it).
        gate_ffn_layer: see `gates.gate`.
        use_gated_transformer: whether a gate takes the place of residual connections.
        gating_type: of these gates, "highway" or "gru".

    Raises:
        ConfigError: listing every argument that is none of its choices, or not positive.
    """

    layers: Sequence[TransformerLayer]
    dropout_rate: float = 0.0
    norm_epsilon: float = 1e-6
    num_vanilla_transformer_layers: int = 2
    couple_carry_transform_gates: bool = True
    act_type: str = REQUIRED
    recurrence_type: str = REQUIRED
    act_max_steps: int = REQUIRED
    act_epsilon: float = REQUIRED
    num_rec_steps: int = REQUIRED
    num_inrecurrence_layers: int = REQUIRED
    position_start_index: str | None = REQUIRED
    add_or_concat_timing_signal: str = REQUIRED
    step_timing_signal_type: str = REQUIRED
    add_position_timing_signal: bool = REQUIRED
    add_step_timing_signal: bool = REQUIRED
    mix_with_transformer_before_ut: bool = REQUIRED
    mix_with_transformer_after_ut: bool = REQUIRED
    gates_inputs: str = REQUIRED
    gate_ffn_layer: str = REQUIRED
    use_gated_transformer: bool = REQUIRED
    gating_type: str = REQUIRED

    def __post_init__(self) -> None:
        self._check()
        dropout_rate = self.dropout_rate
        connection = _sublayer_gate if self.use_gated_transformer else sublayers.sublayer_residual
        super().__init__(
            self.layers,
            sublayers_initial=[sublayers.sublayer_legacy_dropout],
            sublayers_per_layer=[
                _sublayer_norm,
                sublayers.sublayer_call_layer,
                sublayers.sublayer_legacy_dropout,
                connection,
            ],
            sublayers_final=[_sublayer_norm, sublayers.sublayer_legacy_dropout],
            dropout_rate=None,
            norm_epsilon=None,
        )
        self.dropout_rate = dropout_rate

    def transform(self, context: Context, x: Tensor) -> Tensor:
        """See `LayerStack.transform`."""
        if self.mix_with_transformer_before_ut:
            x = self._repeated(context, x, "before", self.num_vanilla_transformer_layers)
        x = self._recurrence(context, x)
        if self.mix_with_transformer_after_ut:
            x = self._repeated(context, x, "after", self.num_vanilla_transformer_layers)
        return x

    def _check(self) -> None:
        faults = [
            f"{name} = {getattr(self, name)!r}; it can be {', '.join(map(repr, choices))}"
            for name, choices in _CHOICES.items()
            if getattr(self, name) not in choices
        ]
        if not self.gates_inputs or set(self.gates_inputs) - set("ist"):
            faults.append(f"gates_inputs = {self.gates_inputs!r}; it is a string of i, s and t")
        if faults:
            raise ConfigError(f"UTLayerStack: {'; '.join(faults)}.")
        counts = (
            "act_max_steps",
            "num_rec_steps",
            "num_inrecurrence_layers",
            "num_vanilla_transformer_layers",
        )
        require_positive("UTLayerStack", **{name: getattr(self, name) for name in counts})

    @property
    def _num_steps(self) -> int:
        return self.act_max_steps if self.recurrence_type == "act" else self.num_rec_steps

    def _recurrence(self, context: Context, x: Tensor) -> Tensor:
        if self.recurrence_type == "act":
            if self.act_type == "global" and context.autoregressive:
                raise ConfigError(
                    'UTLayerStack.act_type = "global" averages over the length, in a stack that '
                    'must not see later positions. Bind "basic" in the scope of the decoder.'
                )

            def transform(state: Tensor, step: int) -> tuple[Tensor, Tensor]:
                seen = self._with_signals(context, state, step)
                return seen, self._step(context, seen)

            return adaptive_computation(
                context, x, transform, self.act_max_steps + 1, self.act_epsilon, self.act_type
            )
        state = x
        for step in range(self.num_rec_steps):
            new = self._step(context, self._with_signals(context, state, step))
            if self.recurrence_type == "highway":
                named = {"i": x, "s": state, "t": new}
                inputs = [named[letter] for letter in self.gates_inputs]
                with mtf.variable_scope("highway"):
                    coupled = self.couple_carry_transform_gates
                    new = highway(context, state, new, inputs, self.gate_ffn_layer, coupled)
            state = new
        return state

    def _step(self, context: Context, x: Tensor) -> Tensor:
        if self.num_inrecurrence_layers == 1:
            return self._layers_once(context, x)
        return self._repeated(context, x, "rec_layer", self.num_inrecurrence_layers)

    def _repeated(self, context: Context, x: Tensor, scope: str, times: int) -> Tensor:
        for index in range(times):
            with mtf.variable_scope(f"{scope}_{index:03d}"):
                x = self._layers_once(context, x)
        return x

    def _layers_once(self, context: Context, x: Tensor) -> Tensor:
        return super().transform(context, x)

    def _with_signals(self, context: Context, x: Tensor, step: int) -> Tensor:
        signals = []
        if self.add_position_timing_signal:
            start = self.position_start_index
            signals.append(position_signal(context, step, self._num_steps, start))
        if self.add_step_timing_signal:
            kind = self.step_timing_signal_type
            signals.append(step_signal(context, step, self._num_steps, kind))
        return joined(context, x, signals, self.add_or_concat_timing_signal)


def _sublayer_norm(x: Tensor, layer_stack: UTLayerStack, context: Context) -> Tensor:
    return layer_norm(x, context.d_model, context.variable_dtype, layer_stack.norm_epsilon)


def _sublayer_gate(x: Tensor, layer_stack: UTLayerStack, context: Context) -> Tensor:
    before, ffn = context.layer_input, layer_stack.gate_ffn_layer
    with mtf.variable_scope("gate"):
        if layer_stack.gating_type == "gru":
            return gated_recurrent_unit(context, before, x, ffn)
        coupled = layer_stack.couple_carry_transform_gates
        return highway(context, before, x, [before, x], ffn, coupled)
