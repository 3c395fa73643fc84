"""Every kind of model gives one loss and one gradient, wherever it runs."""

import numpy as np
import pytest

import mtf_models as mtf

LAYOUT = "batch:batch,heads:model,d_ff:model,vocab:model"
PREFIX = "Unitransformer.input_full_attention = True"
LENGTHS = "run.sequence_length = {'inputs': 12, 'targets': 10}"
SOFT = ("StudentTeacher.fraction_soft = 0.5", "StudentTeacher.temperature = 2.0")
KINDS = {
    "aligned": ("lm_tiny",),
    "delimited_lm": ("lm_tiny", LENGTHS, PREFIX, "Unitransformer.loss_on_targets_only = True"),
    "bi_student_teacher": ("t5_tiny", *SOFT),
}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_those_of_one_device(build, kind):
    rng = np.random.default_rng(4)
    lengths = {"inputs": 12, "targets": 12 if kind == "aligned" else 10}
    features = {name: rng.integers(1, 100, [8, n], np.int32) for name, n in lengths.items()}
    name, *params = KINDS[kind]
    params = [*params, "num_layers = 1", f"run.model_type = '{kind}'"]
    alone = build(name, *params, seed=1)
    spread = build(name, *params, seed=1, mesh=mtf.Mesh("batch:2;model:4", layout=LAYOUT))
    right, found = alone(features, "train").loss, spread(features, "train").loss
    assert float(found) == pytest.approx(float(right), rel=1e-5)
    gradients = spread.gradients(features)
    for variable, gradient in alone.gradients(features).items():
        off = np.max(np.abs(gradients[variable].numpy() - gradient.numpy()))
        assert off < 1e-4 * np.max(np.abs(gradient.numpy())), variable
