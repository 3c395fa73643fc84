"""Layouts do not change results: the same training on one device and on meshes of up to eight."""

from pathlib import Path

import numpy as np
import pytest
from tensorflow.experimental import dtensor

import mtf_models as mtf
from mtf_models.optimize.adafactor import AdafactorOptimizer

CONFIGS = Path(__file__).parents[1] / "transformer"
RULES = {"batch": "batch", "heads": "model", "d_ff": "model", "vocab": "model"}
MESHES = ["", "batch:2;model:4"]
LARGE = ["batch:8", "model:8", "batch:4;model:2"]  # The more devices, the longer compiling takes.
ALSO = [
    *(pytest.param(mesh, marks=pytest.mark.slow) for mesh in ("batch:4", "model:4")),
    *(pytest.param(mesh, marks=pytest.mark.nightly) for mesh in LARGE),
]
LENGTHS = {"inputs": 12, "targets": 10}
STEPS = 3
CASES = {
    "packed t5": ("t5_tiny", ["num_layers = 1"]),
    "lm with dropout": ("lm_tiny", ["num_layers = 1", "dropout_rate = 0.2"]),
    "packed t5, two blocks": ("t5_tiny", []),
    "t5 with dropout": ("t5_tiny", ["dropout_rate = 0.2"]),
}
MARKS = {
    "packed t5": [],
    "lm with dropout": [pytest.mark.slow],
    "packed t5, two blocks": [pytest.mark.nightly],
    "t5 with dropout": [pytest.mark.nightly],
}


class WatchedAdafactor(AdafactorOptimizer):
    """Keeps the last gradient in a slot of its own, so that one compilation shows everything."""

    def slot_shapes(self, name, shape):
        return {**super().slot_shapes(name, shape), f"{name}_gradient": shape}

    def _step(self, name, value, gradient, slots, *args):
        slots = {n: x for n, x in slots.items() if n != f"{name}_gradient"}
        change, slots = super()._step(name, value, gradient, slots, *args)
        return change, {**slots, f"{name}_gradient": gradient}


class Run:
    """Three steps of training on one mesh, and what was there before, between and after."""

    def __init__(self, case, mesh, folder):
        config, params = CASES[case]
        self.mesh = mtf.Mesh(mesh, layout=",".join(f"{d}:{a}" for d, a in RULES.items()))
        model = mtf.build_model([str(CONFIGS / f"{config}.gin")], params, self.mesh, seed=3)
        optimizer = WatchedAdafactor(min_dim_size_to_factor=32)
        self.trainer = mtf.Trainer(model, optimizer=optimizer, learning_rate=0.01)
        self.features = _packed() if case.startswith("packed") else _unpacked(model)
        self.initial = {n: v.numpy() for n, v in model.variables.items()}
        self.losses, self.gradients = [], []
        for _ in range(STEPS):
            self.losses.append(self.trainer.step(self.features)["loss"])
            self.gradients.append(self._ending_in("_gradient"))
        self.folder = folder
        self.trainer.save(folder)
        self.final = {n: v.numpy() for n, v in self.trainer.variables.items()}

    def _ending_in(self, suffix):
        variables = self.trainer.variables.items()
        return {n: v.numpy() for n, v in variables if n.endswith(suffix)}


def _unpacked(model):
    rng = np.random.default_rng(7)
    features = {}
    for name in model.network.feature_names:
        ids = rng.integers(2, 100, [8, LENGTHS[name]])
        for row, end in zip(ids, rng.integers(3, LENGTHS[name], 8), strict=True):
            row[end:] = 0
        features[name] = ids
    return features


def _packed():
    """Two sequences in each row, the second one 2 shorter, and padding behind them."""
    rng = np.random.default_rng(7)
    features = {}
    for name, length in LENGTHS.items():
        sizes = length // 2, length // 2 - 2
        segments = np.repeat([1, 2, 0], [*sizes, 2])
        positions = np.concatenate([np.arange(n) for n in (*sizes, 2)]) * (segments > 0)
        features[name] = rng.integers(2, 100, [8, length]) * (segments > 0)
        features[f"{name}_segmentation"] = np.tile(segments, [8, 1])
        features[f"{name}_position"] = np.tile(positions, [8, 1])
    return features


@pytest.fixture(
    scope="module",
    params=[pytest.param(case, marks=marks) for case, marks in MARKS.items()],
)
def runs(request, tmp_path_factory):
    """Runs of one case by mesh, each made when it is first asked for."""
    made = {}

    def run(mesh):
        if mesh not in made:
            made[mesh] = Run(request.param, mesh, tmp_path_factory.mktemp("run"))
        return made[mesh]

    return run


each_mesh = pytest.mark.parametrize("mesh", [*MESHES[1:], *ALSO])


@each_mesh
def test_initial_values_are_equal(runs, mesh):
    found, right = runs(mesh).initial, runs("").initial
    assert found.keys() == right.keys()
    for name, value in right.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@each_mesh
def test_losses_are_equal(runs, mesh):
    assert runs(mesh).losses == pytest.approx(runs("").losses, rel=1e-5)
    assert len(set(runs("").losses)) == STEPS


@each_mesh
def test_gradients_are_equal(runs, mesh):
    for found, right in zip(runs(mesh).gradients, runs("").gradients, strict=True):
        assert found.keys() == right.keys()
        for name, gradient in right.items():
            scale = np.max(np.abs(gradient))
            assert scale > 0, name
            assert np.max(np.abs(found[name] - gradient)) < 1e-5 * scale, name


@each_mesh
def test_every_variable_lies_as_the_rules_say(runs, mesh):
    run = runs(mesh)
    axes = {dim.name: dim.size for dim in mtf.Shape(mesh)}
    for name, variable in run.trainer.variables.items():
        value = variable.value.value
        planned = [
            RULES.get(dim.name) if RULES.get(dim.name) in axes else None for dim in variable.shape
        ]
        specs = [
            None if s == dtensor.UNSHARDED else s
            for s in dtensor.fetch_layout(value).sharding_specs
        ]
        assert specs == planned, name
        sizes = [
            n // axes.get(a, 1)
            for n, a in zip(variable.shape.to_integer_list, planned, strict=True)
        ]
        assert list(dtensor.unpack(value)[0].shape) == sizes, name


@pytest.mark.parametrize("written", [*MESHES, *ALSO])
def test_a_checkpoint_is_restored_on_every_mesh(runs, written):
    """Weights and slots; and the next step is the one that the writer makes."""
    source = runs(written)
    losses = {}
    for mesh in {*MESHES, written}:
        trainer = runs(mesh).trainer
        trainer.restore(source.folder)
        assert trainer.step_number == STEPS
        for name, variable in trainer.variables.items():
            np.testing.assert_array_equal(variable.numpy(), source.final[name], err_msg=name)
        losses[mesh] = trainer.step(runs(mesh).features)["loss"]
    for mesh, loss in losses.items():
        assert loss == pytest.approx(losses[written], rel=1e-5), mesh
