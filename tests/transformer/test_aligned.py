"""Models that predict a target at each input."""

import numpy as np
import pytest

from mtf_models.errors import ConfigError, DataError

ALIGNED = ("run.model_type = 'aligned'", "num_layers = 1")


@pytest.fixture(scope="module")
def model(build):
    return build("lm_tiny", *ALIGNED, seed=1)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(3)
    inputs = rng.integers(2, 100, [4, 6], np.int32)
    return {"inputs": inputs, "targets": np.where(rng.random([4, 6]) < 0.5, inputs, 0)}


def test_every_input_is_seen_and_no_target(model, batch):
    right = model(batch).logits.numpy()
    other = {**batch, "targets": np.roll(batch["targets"], 1, axis=0)}
    np.testing.assert_array_equal(model(other).logits.numpy(), right)
    changed = batch["inputs"].copy()
    changed[:, -1] = 50
    found = model({**batch, "inputs": changed}).logits.numpy()
    assert (np.abs(found - right).max(axis=-1) > 1e-5)[batch["inputs"][:, -1] != 50].all()


def test_only_targets_above_zero_count(model, batch):
    out = model(batch)
    logits = out.logits.numpy().astype(np.float64)
    targets = batch["targets"]
    log_z = np.log(np.sum(np.exp(logits), axis=-1))
    losses = log_z - np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    assert float(out.loss) == pytest.approx(np.mean(losses * (targets > 0)), rel=1e-5)


def test_what_cannot_be_aligned_or_decoded_is_refused(build, model, batch):
    with pytest.raises(DataError, match="predicts a target for each input"):
        model({**batch, "targets": batch["targets"][:, :4]})
    with pytest.raises(ConfigError, match="decodes nothing"):
        model.decode({"inputs": batch["inputs"]})
    with pytest.raises(ConfigError, match="input_full_attention is for autoregressive stacks"):
        build("lm_tiny", *ALIGNED, "Unitransformer.input_full_attention = True")
