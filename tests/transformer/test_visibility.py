"""Who sees whom: padding, the future, and other sequences of a row."""

import numpy as np
import pytest

LENGTHS = {"inputs": 12, "targets": 10}
LEARNED = "transformer.Unitransformer.positional_embedding = True"
SINUSOIDS = "transformer.Unitransformer.sinusoid_positional_embedding = True"
NO_BIAS = "SelfAttention.relative_attention_type = None"
MODELS = {
    "t5": ("t5_tiny",),
    "t5 positions": ("t5_tiny", LEARNED, NO_BIAS),
    "lm": ("lm_tiny",),
    "lm positions": ("lm_tiny", LEARNED, NO_BIAS),
    "lm sinusoids": ("lm_tiny", SINUSOIDS, NO_BIAS),
}
BINS = [[0, 1], [2, 3]]


@pytest.fixture(scope="module", params=MODELS)
def model(build, request):
    return build(*MODELS[request.param], seed=1)


@pytest.fixture
def lengths(model):
    return {name: LENGTHS[name] for name in model.network.feature_names}


def test_more_padding_changes_nothing(model, sentences, rows, lengths):
    tight = rows.unpacked(sentences, lengths)
    loose = rows.unpacked(sentences, {name: n + 5 for name, n in lengths.items()})
    real = tight["targets"] > 0
    right = model(tight).logits.numpy()[real]
    found = model(loose).logits.numpy()[:, :10][real]
    np.testing.assert_allclose(found, right, atol=1e-5 * np.abs(right).max())


def test_packed_rows_are_the_rows_alone(model, sentences, rows, lengths):
    alone = model(rows.unpacked(sentences, lengths))
    packed_features = rows.packed(sentences, lengths, BINS)
    packed = model(packed_features)
    targets = sentences["targets"]
    for row, numbers in enumerate(BINS):
        at = 0
        for number in numbers:
            length = len(targets[number])
            found = packed.logits.numpy()[row, at : at + length]
            right = alone.logits.numpy()[number, :length]
            np.testing.assert_allclose(found, right, atol=1e-5 * np.abs(right).max())
            at += length
    # The loss is divided by all positions, of which the packed batch has half as many.
    assert float(packed.loss) == pytest.approx(2 * float(alone.loss), rel=1e-5)


def test_a_later_target_is_not_seen(model, sentences, rows, lengths):
    features = rows.unpacked(sentences, lengths)
    changed = {**features, "targets": features["targets"].copy()}
    changed["targets"][1, 3] = 50  # read one position later
    difference = model(features).logits.numpy() - model(changed).logits.numpy()
    assert not difference[1, :4].any()
    assert difference[1, 4:6].any(axis=-1).all()
    assert not difference[[0, 2, 3]].any()


def test_packed_neighbours_are_not_seen(model, sentences, rows, lengths):
    features = rows.packed(sentences, lengths, BINS)
    changed = {name: array.copy() for name, array in features.items()}
    for name in model.network.feature_names:
        changed[name][features[f"{name}_segmentation"] == 2] = 50
    found, right = (model(x).logits.numpy() for x in (changed, features))
    first = features["targets_segmentation"] == 1
    assert (found[first] == right[first]).all()
    assert (found[~first] != right[~first]).any()


def test_every_target_sees_every_input(build, sentences, rows):
    model = build("t5_tiny", seed=1)
    features = rows.unpacked(sentences, LENGTHS)
    changed = {**features, "inputs": features["inputs"].copy()}
    changed["inputs"][1, 4] = 50  # the last one of five
    difference = model(features).logits.numpy() - model(changed).logits.numpy()
    assert difference[1, :6].any(axis=-1).all()
    assert not difference[[0, 2, 3]].any()


def test_an_encoder_sees_both_ways(build, sentences, rows):
    # Without the decoder's own view: the first target reads the encoder alone.
    model = build("t5_tiny", seed=1)
    features = rows.unpacked(sentences, LENGTHS)
    swapped = {**features, "inputs": features["inputs"].copy()}
    swapped["inputs"][3, :7] = features["inputs"][3, :7][::-1]
    difference = model(features).logits.numpy() - model(swapped).logits.numpy()
    assert difference[3, 0].any()
