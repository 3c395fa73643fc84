"""Losses of blocks of positions equal those of all at once, and no matrix of all logits is made."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.layers.loss import softmax_cross_entropy
from mtf_models.testing import Placement, check_op

VOCAB = mtf.Dimension("vocab", 8)
# Blocks of 4 positions, of which the last has fewer.
BLOCKS = ["positions_at_once.most_whole = 1", "positions_at_once.most_in_block = 1664"]
KINDS = {
    "t5_tiny": [
        "Unitransformer.z_loss = 0.1",
        "Unitransformer.label_smoothing = 0.1",
        "decoder/Unitransformer.logits_soft_cap = 2.0",
        "Unitransformer.pad_vocab_multiple = 96",
    ],
    "lm_tiny": [
        "Unitransformer.shared_embedding_and_softmax_weights = True",
        "get_vocab_embedding_cls.cls = @Mixtape",
        "Mixtape.gate_embedding_size = 4",
    ],
    "t5_tied": [
        "Unitransformer.shared_embedding_and_softmax_weights = True",
        "utils.get_variable_dtype.activation_dtype = 'bfloat16'",
    ],
    "t5_ensemble": ["Unitransformer.ensemble = 2", "run.ensemble_inputs = 2"],
}


def features(model):
    rng = np.random.default_rng(0)
    found = {name: rng.integers(2, 100, [4, 10]) for name in model.network.feature_names}
    found["targets"][1, 6:] = 0
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mesh", ["", pytest.param("batch:2;model:2", marks=pytest.mark.nightly)])
def test_blocks_change_nothing(build, kind, mesh):
    mesh = mtf.Mesh(mesh, layout="batch:batch,heads:model,d_ff:model,vocab:model")
    name = kind if kind == "lm_tiny" else "t5_tiny"
    params = [*KINDS[kind], "num_layers = 1"]
    whole = build(name, *params, seed=1)
    blocked = build(name, *params, *BLOCKS, mesh=mesh, seed=1)
    batch = features(whole)
    exact = 2e-2 if "bfloat16" in str(params) else 1e-4
    found = blocked.gradients(batch)
    for variable, gradient in whole.gradients(batch).items():
        gradient = gradient.numpy()
        off = np.max(np.abs(found[variable].numpy() - gradient))
        assert off < exact * np.max(np.abs(gradient)) + 1e-7, variable


@pytest.mark.parametrize("z_loss, label_smoothing", [(0.0, 0.0), (0.1, 0.2)])
def test_value_and_gradient_of_the_formula(z_loss, label_smoothing):
    def losses(hidden, kernel, targets):
        def of_rows(_, hidden, targets, kernel):
            logits = mtf.einsum([hidden, kernel], [*targets.shape, VOCAB])
            return [softmax_cross_entropy(logits, targets, VOCAB, z_loss, label_smoothing)]

        length = targets.shape.get_dim_by_name("length")
        return mtf.in_blocks(of_rows, [hidden, targets], [kernel], length, 2)[0]

    def formula(hidden, kernel, targets):
        logits = hidden @ kernel
        log_z = np.log(np.sum(np.exp(logits), axis=-1))
        wanted = np.eye(8)[targets] * (1 - label_smoothing) + label_smoothing / 8
        return log_z - np.sum(wanted * logits, axis=-1) + z_loss * log_z**2

    rng = np.random.default_rng(0)
    check_op(
        losses,
        {
            "hidden": ("batch:2 length:5 d_model:4", rng.normal(size=(2, 5, 4))),
            "kernel": ("d_model:4 vocab:8", rng.normal(size=(4, 8))),
            "targets": ("batch:2 length:5", rng.integers(0, 8, (2, 5)).astype(np.int32)),
        },
        formula,
        placements=[Placement("", ""), Placement("batch:2;model:4", "batch:batch,vocab:model")],
    )


def test_no_matrix_of_all_logits_is_made(build):
    params = ["Unitransformer.vocab_divisor = 8192", "num_layers = 1"]
    blocks = ["positions_at_once.most_whole = 1", f"positions_at_once.most_in_block = {2**16}"]
    largest = [mtf.record_step(build("t5_tiny", *params, *p), 2, 64).largest for p in ([], blocks)]
    # All logits of 2 rows of 64 positions, in float32; in blocks of 4 the table of width 32.
    assert largest == [4 * 2 * 64 * 8192, 4 * 32 * 8192]
