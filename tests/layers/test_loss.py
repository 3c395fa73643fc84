"""Cross entropy equals NumPy in float64, with z-loss, label smoothing and padding."""

import numpy as np
import pytest

import mtf_models.mesh as mtf
from mtf_models.layers.loss import softmax_cross_entropy
from mtf_models.testing import Placement, check_op

VOCAB = mtf.Dimension("vocab", 8)
PLACEMENTS = [Placement("", ""), Placement("batch:2;model:4", "batch:batch,vocab:model")]
LOGITS = np.random.default_rng(0).normal(size=(2, 3, 8)) * 3
TARGETS = np.array([[0, 1, 7], [5, 5, 2]], np.int32)


def reference(logits, targets, z_loss=0.0, label_smoothing=0.0, classes=8):
    logits = logits[..., :classes]
    log_z = np.log(np.sum(np.exp(logits), axis=-1))
    wanted = np.eye(classes)[targets] * (1 - label_smoothing) + label_smoothing / classes
    return log_z - np.sum(wanted * logits, axis=-1) + z_loss * log_z**2


@pytest.mark.parametrize(
    "options",
    [{}, {"z_loss": 0.1}, {"label_smoothing": 0.2}, {"z_loss": 0.1, "label_smoothing": 0.2}],
    ids=str,
)
def test_value_and_gradient(options):
    check_op(
        lambda logits, targets: softmax_cross_entropy(logits, targets, VOCAB, **options),
        {"logits": ("batch:2 length:3 vocab:8", LOGITS), "targets": ("batch:2 length:3", TARGETS)},
        lambda logits, targets: reference(logits, targets, **options),
        placements=PLACEMENTS,
    )


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_padded_classes_take_no_part(label_smoothing):
    padded = LOGITS.copy()
    padded[..., 6:] = -np.inf
    options = {"z_loss": 0.1, "label_smoothing": label_smoothing, "classes": 6}
    targets = np.minimum(TARGETS, 5)
    check_op(
        lambda logits, targets: softmax_cross_entropy(logits, targets, VOCAB, **options),
        {"logits": ("batch:2 length:3 vocab:8", padded), "targets": ("batch:2 length:3", targets)},
        lambda logits, targets: reference(logits, targets, **options),
        placements=PLACEMENTS,
        gradient_reference=lambda dy, logits, targets: {
            "logits": _gradient(dy[0], logits, targets, **options)
        },
    )


def _gradient(dy, logits, targets, z_loss, label_smoothing, classes):
    weights = np.where(np.isfinite(logits), np.exp(logits), 0)
    total = np.sum(weights, axis=-1, keepdims=True)
    wanted = np.eye(8)[targets] * (1 - label_smoothing)
    wanted[..., :classes] += label_smoothing / classes
    return dy[..., None] * (weights / total * (1 + 2 * z_loss * np.log(total)) - wanted)


def test_a_target_out_of_range_has_no_entry():
    logits = mtf.import_tf_tensor(mtf.Mesh(), LOGITS.astype(np.float32), "batch:2 length:3 vocab:8")
    targets = mtf.import_tf_tensor(logits.mesh, np.full([2, 3], 8, np.int32), "batch:2 length:3")
    log_z = np.log(np.sum(np.exp(LOGITS), axis=-1))
    np.testing.assert_allclose(softmax_cross_entropy(logits, targets, VOCAB), log_z, rtol=1e-5)


def test_uniform_logits_cost_the_logarithm_of_the_classes():
    logits = mtf.zeros(mtf.Mesh(), "batch:2 vocab:8", "bfloat16")
    loss = softmax_cross_entropy(logits, mtf.zeros(logits.mesh, "batch:2", "int32"), VOCAB, 1.0)
    assert loss.dtype.name == "float32"
    np.testing.assert_allclose(loss, [np.log(8) + np.log(8) ** 2] * 2, rtol=1e-6)


def test_large_logits_do_not_overflow():
    array = np.array([[1e4, -1e4, 0, 0, 0, 0, 0, 0]], np.float32)
    logits = mtf.import_tf_tensor(mtf.Mesh(), array, "batch:1 vocab:8")
    target = mtf.import_tf_tensor(logits.mesh, np.array([1], np.int32), "batch:1")
    assert softmax_cross_entropy(logits, target, VOCAB).numpy().tolist() == [2e4]
