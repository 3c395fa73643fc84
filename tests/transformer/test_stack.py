"""How layers are put together."""

import dataclasses

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.transformer import sublayers
from mtf_models.transformer.context import Context
from mtf_models.transformer.feed_forward import DenseReluDense
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.reversible import ReversibleLayerStack
from mtf_models.transformer.stack import LayerStack, make_layer_stack

BATCH, LENGTH = mtf.Dimension("batch", 2), mtf.Dimension("length", 3)
D_MODEL = mtf.Dimension("d_model", 4)
X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)


class Times(TransformerLayer):
    """Multiplies by a number, and adds it to the loss."""

    def __init__(self, factor=2.0):
        self.factor = factor

    def call(self, context, x):
        context.add_loss("factor", mtf.constant(x.mesh, self.factor))
        return x * self.factor


class Scaled(TransformerLayer):
    """Multiplies by a variable."""

    def call(self, context, x):
        return x * mtf.get_variable(x.mesh, "factor", [])


def plus_one(x, layer_stack, context):
    return x + 1.0


@pytest.fixture
def context():
    mesh = mtf.Mesh()
    ids = mtf.import_tf_tensor(mesh, np.array([[1, 1, 1], [1, 0, 0]], np.int32), [BATCH, LENGTH])
    return Context(
        mesh=mesh,
        mode="eval",
        variable_dtype=mtf.VariableDType(),
        length_dim=LENGTH,
        memory_length_dim=mtf.Dimension("memory_length", 3),
        d_model=D_MODEL,
        position=mtf.mtf_range(mesh, LENGTH),
        autoregressive=False,
        sequence_id=ids,
    )


@pytest.fixture
def x(context):
    return mtf.import_tf_tensor(context.mesh, X, [BATCH, LENGTH, D_MODEL])


def stack(layers, **kwargs):
    for i, layer in enumerate(layers):
        layer.name = f"layer_{i:03d}"
    return LayerStack(layers, **kwargs)


REAL = np.array([[1, 1, 1], [1, 0, 0]])[:, :, None]


def test_sublayers_run_in_their_order(context, x):
    made = stack(
        [Times(2.0), Times(3.0)],
        sublayers_initial=[plus_one],
        sublayers_per_layer=[plus_one, sublayers.sublayer_call_layer, sublayers.sublayer_residual],
        sublayers_final=[plus_one, plus_one],
    )
    y = made.call(context, x)
    h = X + 1
    for factor in (2.0, 3.0):
        h = h + factor * (h + 1) * REAL
    np.testing.assert_array_equal(y, (h + 2) * REAL)


def test_without_sublayers_layers_are_called(context, x):
    np.testing.assert_array_equal(stack([Times(2.0)]).call(context, x), 2 * X * REAL)


def test_layers_add_to_the_losses(context, x):
    stack([Times(2.0), Times(3.0)]).call(context, x)
    assert [float(loss) for loss in context.losses.values()] == [2.0, 3.0]


def test_recomputed_layers_add_to_the_losses_too(context, x):
    training = dataclasses.replace(context, mode="train", losses={})
    made = stack([Times(2.0), Times(3.0)], recompute_grads=True)
    np.testing.assert_array_equal(made.call(training, x), 6 * X * REAL)
    assert [float(loss) for loss in training.losses.values()] == [2.0, 3.0]


def test_scopes_are_named_by_layer_and_class(context, x):
    store = mtf.VariableStore(context.mesh)
    with store.eager():
        stack([Scaled(), Scaled()]).call(context, x)
    assert list(store.variables) == ["layer_000/Scaled/factor", "layer_001/Scaled/factor"]


def test_legacy_lists_need_both_numbers():
    legacy = LayerStack([], dropout_rate=0.1, norm_epsilon=1e-6)
    assert legacy.sublayers_per_layer == sublayers.LEGACY_PER_LAYER
    for one in ({"dropout_rate": 0.1}, {"norm_epsilon": 1e-6}):
        with pytest.raises(ConfigError, match="set both"):
            LayerStack([], **one)


def test_items_are_classes_names_and_arguments_in_any_order():
    made = make_layer_stack(
        [DenseReluDense, ({"hidden_size": 8}, DenseReluDense, "narrow"), ("plain", DenseReluDense)],
        num_layers=2,
    )
    assert [(layer.name, layer.hidden_size) for layer in made.layers] == [
        ("block_000/layer_000", 4096),
        ("block_000/narrow", 8),
        ("block_000/plain", 4096),
        ("block_001/layer_000", 4096),
        ("block_001/narrow", 8),
        ("block_001/plain", 4096),
    ]


@pytest.mark.parametrize(
    "item",
    [3, "DenseReluDense", (), ("a", "b", DenseReluDense), (DenseReluDense, DenseReluDense), ({},)],
    ids=str,
)
def test_other_items_are_refused(item):
    with pytest.raises(ConfigError, match=r"make_layer_stack\.layers has the item"):
        make_layer_stack([DenseReluDense, item])


def test_rezero_begins_with_the_residual_alone(context, x):
    made = stack(
        [Times(3.0)],
        sublayers_per_layer=[
            sublayers.sublayer_call_layer,
            sublayers.sublayer_rezero,
            sublayers.sublayer_residual,
        ],
    )
    store = mtf.VariableStore(context.mesh)
    with store.eager():
        np.testing.assert_array_equal(made.call(context, x), X * REAL)
        assert list(store.variables) == ["layer_000/rezero_weight"]
    weights = {"layer_000/rezero_weight": mtf.constant(context.mesh, 0.5).value}
    with store.serving(weights):
        np.testing.assert_array_equal(made.call(context, x), (X + 0.5 * 3.0 * X) * REAL)


@pytest.mark.parametrize(
    "norm, names",
    [
        (sublayers.sublayer_rms_norm_subsampled, ["layer_norm_subsampled/scale"]),
        (sublayers.sublayer_scale_norm, ["scale_norm/scale"]),
        (
            sublayers.sublayer_true_layer_norm,
            [
                "true_layer_norm/layer_prepostprocess/layer_norm/layer_norm_bias",
                "true_layer_norm/layer_prepostprocess/layer_norm/layer_norm_scale",
            ],
        ),
    ],
)
def test_names_of_norms(context, x, norm, names):
    store = mtf.VariableStore(context.mesh)
    with store.eager():
        norm(x, None, context)
    assert sorted(store.variables) == names


@pytest.mark.parametrize("step, rate", [(0, 0.4), (10, 0.4), (15, 0.2), (20, 0.0), (50, 0.0)])
def test_annealed_dropout(context, step, rate):
    wide = mtf.ones(context.mesh, [mtf.Dimension("batch", 4000), LENGTH, D_MODEL])
    count = mtf.constant(context.mesh, step, dtype="int32")
    training = dataclasses.replace(context, mode="train", step=count)
    options = {"init_dropout_rate": 0.4, "start_step": 10, "end_step": 20}
    with mtf.random_stream(mtf.RandomStream((0, step))):
        y = sublayers.sublayer_annealed_dropout(wide, None, training, **options).numpy()
    assert np.mean(y == 0) == pytest.approx(rate, abs=0.02)
    assert np.unique(y[y > 0]).tolist() == pytest.approx([1 / (1 - rate)])
    assert (y == y[:, :1]).all()  # the same at every position
    assert sublayers.sublayer_annealed_dropout(wide, None, context, **options) is wide


def test_annealed_dropout_in_a_model(build):
    around = "[@sublayer_rms_norm, @sublayer_call_layer, @sublayer_annealed_dropout]"
    model = build(
        "lm_tiny",
        "num_layers = 1",
        f"LayerStack.sublayers_per_layer = {around}",
        "sublayer_annealed_dropout.init_dropout_rate = 0.5",
        "sublayer_annealed_dropout.start_step = 0",
        "sublayer_annealed_dropout.end_step = 1",
        "Unitransformer.z_loss = 0.0",
    )
    batch = {"targets": np.array([[5, 7, 9, 4, 1], [11, 2, 3, 8, 1]], np.int32)}
    without = float(model(batch).loss)
    assert float(model(batch, "train").loss) != pytest.approx(without, rel=1e-4)
    assert set(model.gradients(batch)) == set(model.variables)
    trainer = mtf.Trainer(model, learning_rate=0.0)
    first, second = (trainer.step(batch)["loss"] for _ in range(2))
    assert first != pytest.approx(without, rel=1e-4)
    assert second == pytest.approx(without, rel=1e-6)  # the rate is 0 by then


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_reversible_layers(context, x, mode):
    layers = [Times(2.0), Times(3.0), Times(5.0)]
    made = ReversibleLayerStack(layers, sublayers_per_layer=[sublayers.sublayer_call_layer])
    y = made.call(dataclasses.replace(context, mode=mode), x)
    # x, x -> x, 3x -> 3x, 10x -> 10x, 53x
    np.testing.assert_allclose(y, 63 * X * REAL, rtol=1e-6)
