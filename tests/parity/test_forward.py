"""Logits and losses equal the original's."""

import numpy as np
import pytest


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_logits_and_loss(recorded, model, relative, mode):
    output = model(recorded.group("plain/"), mode)
    assert relative(output.logits, recorded[f"{mode}/logits"][0]) < 1e-5
    assert relative(output.loss, recorded[f"{mode}/loss"]) < 1e-5


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_loss_is_the_sum_of_its_parts(recorded, model, mode):
    output = model(recorded.group("plain/"), mode)
    parts = recorded.loss_parts(mode)
    assert [float(x) for x in output.losses.values()] == pytest.approx(parts, rel=1e-5)
    assert float(output.loss) == pytest.approx(sum(parts), rel=1e-5)


def test_packed_rows(recorded, model, relative):
    output = model(recorded.group("packed/"), "train")
    assert relative(output.logits, recorded["packed_train/logits"][0]) < 1e-5
    assert relative(output.loss, recorded["packed_train/loss"]) < 1e-5


def test_the_vocabulary_is_the_checkpoints(recorded, model):
    # The folders name no tokenizer; their tables have 100 ids and padding, 128 rows.
    output = model(recorded.group("plain/"))
    assert output.logits.shape.get_dim_by_name("vocab").size == 128


def test_score_is_the_likelihood_of_the_targets(recorded, model, relative):
    features = recorded.group("plain/")
    if "targets_segmentation" in features:
        pytest.skip("the rows are packed")
    cross_entropy = recorded["eval/token_xent"][0] * (features["targets"] > 0)
    assert relative(model.score(features), -np.sum(cross_entropy, axis=1)) < 1e-5
