"""Universal transformers: variants against NumPy, step by step against whole, on layouts."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer.universal.gates import gated_recurrent_unit, highway
from mtf_models.transformer.universal.halting import adaptive_computation
from mtf_models.transformer.universal.timing import joined, position_signal, step_signal

LAYOUT = "heads:model,d_ff:model,vocab:model"
DEFAULTS = {
    "act_type": "basic",
    "recurrence_type": "basic",
    "act_max_steps": 3,
    "act_epsilon": 0.1,
    "num_rec_steps": 2,
    "num_inrecurrence_layers": 1,
    "position_start_index": None,
    "add_or_concat_timing_signal": "add",
    "step_timing_signal_type": "learned",
    "add_position_timing_signal": False,
    "add_step_timing_signal": True,
    "mix_with_transformer_before_ut": False,
    "mix_with_transformer_after_ut": False,
    "gates_inputs": "ist",
    "gate_ffn_layer": "dense",
    "use_gated_transformer": False,
    "gating_type": "highway",
}
VARIANTS = {
    "act": {"recurrence_type": "act"},
    "accumulated": {"recurrence_type": "act", "act_type": "accumulated"},
    "highway": {"recurrence_type": "highway", "couple_carry_transform_gates": False},
    "deep gates": {"recurrence_type": "highway", "gate_ffn_layer": "dense_relu_dense"},
    "sinusoids side by side": {
        "add_or_concat_timing_signal": "concat",
        "step_timing_signal_type": "sinusoid",
        "add_position_timing_signal": True,
        "position_start_index": "step",
    },
    "gated residuals": {"use_gated_transformer": True},
    "recurrent units": {"use_gated_transformer": True, "gating_type": "gru"},
    "mixed": {
        "num_inrecurrence_layers": 2,
        "mix_with_transformer_before_ut": True,
        "mix_with_transformer_after_ut": True,
        "num_vanilla_transformer_layers": 1,
    },
}
INPUTS = np.array([[5, 7, 9, 1, 0, 0], [3, 4, 5, 6, 7, 1]], np.int32)
TARGETS = np.array([[8, 6, 4, 2, 1, 0], [9, 2, 1, 0, 0, 0]], np.int32)
FEATURES = {"inputs": INPUTS, "targets": TARGETS}


def marked(quick=(), slow=()):
    """All variants, marked as slow and the rest as nightly, but for those that are quick."""
    marks = {v: pytest.mark.slow if v in slow else pytest.mark.nightly for v in VARIANTS}
    return [v if v in quick else pytest.param(v, marks=mark) for v, mark in marks.items()]


def bindings(**options):
    stack = "@mesh_tensorflow.transformer.universal_transformer.UTLayerStack"
    lines = [f"UTLayerStack.{k} = {v!r}" for k, v in {**DEFAULTS, **options}.items()]
    return [f"make_layer_stack.layer_stack_cls = {stack}", "num_layers = 1", *lines]


@pytest.mark.parametrize("variant", marked(quick=["deep gates"], slow=["act", "mixed"]))
def test_it_decodes_step_by_step_as_it_reads_whole_sequences(build, variant):
    model = build("t5_tiny", *bindings(**VARIANTS[variant]), seed=2)
    result = model.decode({"inputs": INPUTS}, max_decode_length=5)
    rescored = model.score({"inputs": INPUTS, "targets": result.ids.numpy()})
    np.testing.assert_allclose(result.scores, rescored, rtol=1e-5)


STARTS = {"position_start_index": "step", "add_position_timing_signal": True}


@pytest.mark.parametrize(
    "layer, options",
    [
        ('(@LocalSelfAttention, {"radius": 3})', {}),
        ('(@Conv1DLayer, {"filter_size": 3, "output_size": 32})', {}),
        ("@SelfAttention", STARTS),
    ],
)
def test_prompts_are_read_as_what_is_decoded_after_them(build, layer, options):
    layers = f"transformer.make_layer_stack.layers = [{layer}, @DenseReluDense]"
    model = build("lm_tiny", *bindings(num_rec_steps=3, **options), layers, seed=2)
    prompts = INPUTS[:, :3]
    result = model.decode({"inputs": prompts}, max_decode_length=5)
    given = {"targets": np.pad(prompts, [[0, 0], [0, 5]])}
    right = model.score({"targets": result.ids}) - model.score(given)
    np.testing.assert_allclose(result.scores, right, rtol=1e-3)


@pytest.mark.parametrize("variant", marked(slow=["act"]))
def test_layouts_and_recomputation_change_nothing(build, variant):
    params = bindings(**VARIANTS[variant])
    whole = build("t5_tiny", *params, seed=2)
    mesh = mtf.Mesh("model:2", layout=LAYOUT)
    split = build("t5_tiny", *params, "LayerStack.recompute_grads = True", mesh=mesh, seed=2)
    assert float(split(FEATURES).loss) == pytest.approx(float(whole(FEATURES).loss), rel=1e-5)
    right = whole.gradients(FEATURES)
    for name, gradient in split.gradients(FEATURES).items():
        largest = np.abs(right[name].numpy()).max()
        np.testing.assert_allclose(gradient, right[name], atol=2e-5 * max(largest, 1e-3))


@pytest.mark.nightly
def test_every_variable_of_every_variant_learns(build):
    for options in VARIANTS.values():
        grads = build("t5_tiny", *bindings(**options), seed=2).gradients(FEATURES)
        assert [n for n, g in grads.items() if not np.abs(g.numpy()).max() > 0] == []


D_MODEL, BATCH, LENGTH = mtf.Dimension("d_model", 4), mtf.Dimension("batch", 2), 3


@pytest.fixture
def named(make_context):
    """A context of 3 positions, and a function that puts arrays [batch, length, d_model] there."""
    context = make_context(BATCH, mtf.Dimension("length", LENGTH), D_MODEL)
    shape = [BATCH, context.length_dim, D_MODEL]
    return context, lambda x: mtf.import_tf_tensor(context.mesh, x.astype(np.float32), shape)


def halted(ps, states, epsilon, accumulated):
    """Graves 2016, equations 6 to 14, position by position."""
    result = np.zeros_like(states[0])
    for place in np.ndindex(ps[0].shape):
        total, done = 0.0, False
        for p, state in zip(ps, states, strict=True):
            if done:
                break
            done = total + p[place] > 1 - epsilon
            weight = 1 - total if done else p[place]
            total += weight
            kept = 1 if accumulated else 1 - weight
            result[place] = kept * result[place] + weight * state[place]
    return result


@pytest.mark.parametrize("act_type", ["basic", "accumulated"])
def test_adaptive_computation_time(named, act_type):
    context, put = named
    rng = np.random.default_rng(0)
    kernel, states = rng.normal(size=4), [rng.normal(size=(2, LENGTH, 4)) for _ in range(5)]
    table = {
        "sigmoid_activation_for_pondering/dense/kernel": kernel[:, None],
        "sigmoid_activation_for_pondering/dense_1/bias": np.array([0.2]),
    }
    table = {n: mtf.constant(context.mesh, 0.0).value + v for n, v in table.items()}
    with mtf.VariableStore(context.mesh).serving(table):
        found = adaptive_computation(
            context,
            put(states[0]),
            lambda state, step: (put(states[step]), put(states[step + 1])),
            max_steps=4,
            epsilon=0.1,
            act_type=act_type,
        )
    ps = [1 / (1 + np.exp(-(x @ kernel + 0.2))) for x in states[:4]]
    right = halted(ps, states[1:], 0.1, act_type == "accumulated")
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_gates(named):
    context, put = named
    rng = np.random.default_rng(1)
    before, after = rng.normal(size=(2, 2, LENGTH, 4))
    store = mtf.VariableStore(context.mesh, seed=3)
    with store.eager():
        found = highway(context, put(before), put(after), [put(after), put(before)])
        unit = gated_recurrent_unit(context, put(before), put(after))
    value = {name: variable.numpy() for name, variable in store.variables.items()}

    def ffn(name, *inputs):
        kernel, bias = value[f"{name}/gate/kernel"], value[f"{name}/gate_bias"]
        return np.concatenate(inputs, axis=-1) @ kernel + bias

    assert value["transform/gate_bias"].tolist() == [-1.0] * 4
    transform = sigmoid(ffn("transform", after, before))
    right = before * (1 - transform) + after * transform
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    update = sigmoid(ffn("update", before, after))
    reset = sigmoid(ffn("reset", before, after))
    candidate = np.tanh(ffn("candidate", before * reset, after))
    right = before * (1 - update) + candidate * update
    np.testing.assert_allclose(unit, right, rtol=1e-5, atol=1e-6)


def sinusoid(position):
    """Of width 4: two wavelengths, sines first."""
    angles = position * np.array([1.0, 1e-4])
    return np.concatenate([np.sin(angles), np.cos(angles)])


def test_signals(named):
    context, put = named
    step = step_signal(context, 1, 4, "sinusoid")
    np.testing.assert_allclose(step, sinusoid(1), rtol=1e-6)
    places = position_signal(context, 2, 3, "step")  # two thirds of 3 positions further
    np.testing.assert_allclose(places, [sinusoid(i + 2) for i in range(3)], rtol=1e-5)
    x = np.ones([2, LENGTH, 4])
    added = joined(context, put(x), [step, places], "add")
    np.testing.assert_allclose(added, x + sinusoid(1) + places.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"act_type": "local", "gating_type": "lstm"}, "act_type = 'local'.*gating_type = 'lstm'"),
        ({"gates_inputs": "xyz"}, "gates_inputs = 'xyz'"),
        ({"num_rec_steps": 0}, "num_rec_steps"),
    ],
)
def test_options_that_do_not_exist(build, options, message):
    with pytest.raises(ConfigError, match=message):
        build("t5_tiny", *bindings(**options))


def test_a_decoder_must_not_average_over_later_positions(build):
    with pytest.raises(ConfigError, match='global.*later positions.*"basic"'):
        build("t5_tiny", *bindings(recurrence_type="act", act_type="global")).variables  # noqa: B018
