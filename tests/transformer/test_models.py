"""What whole models make of their options, and what they refuse."""

import numpy as np
import pytest

from mtf_models.errors import ConfigError
from mtf_models.transformer.stack import LayerStack
from mtf_models.transformer.unitransformer import Unitransformer

LENGTHS = {"inputs": 12, "targets": 10}


@pytest.fixture
def features(sentences, rows):
    return rows.unpacked(sentences, LENGTHS)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["run.vocabulary = (100, 200)"], "vocabularies of 100 and 200 ids"),
        (["encoder/Unitransformer.d_model = 64"], "have d_model 64 and 32"),
        (["DenseReluDense.activation = 'gleu'"], "did you mean gelu"),
        (["encoder/make_layer_stack.layers = ['DenseReluDense']"], "has the item 'DenseReluDense'"),
        (["SelfAttention.relative_attention_type = 'biased'"], "'biased'; it can be"),
        (["LayerStack.dropout_rate = 0.1"], "set both"),
        (["run.model_type = 'bert'"], "'bert'; known"),
    ],
)
def test_options_that_do_not_fit_are_refused(build, params, message):
    with pytest.raises(ConfigError, match=message):
        build("t5_tiny", *params)


def test_a_table_for_both_ends_needs_one_vocabulary():
    with pytest.raises(ConfigError, match="100 ids and the logits 200 classes"):
        Unitransformer(
            LayerStack([]),
            input_vocab_size=100,
            output_vocab_size=200,
            autoregressive=True,
            max_length=8,
            shared_embedding_and_softmax_weights=True,
        )


def test_more_positions_than_embeddings_are_refused(build, features):
    learned = "transformer.Unitransformer.positional_embedding = True"
    with pytest.raises(ConfigError, match="12 positions, and positional embeddings for 11"):
        build("t5_tiny", learned, "transformer.Unitransformer.max_length = 11")
    model = build("t5_tiny", learned, "transformer.Unitransformer.max_length = 12")
    with pytest.raises(ConfigError, match="13 positions, and positional embeddings for 12"):
        model.decode({"inputs": features["inputs"]}, max_decode_length=13)


def test_label_smoothing_and_z_loss(build, features):
    plain = build("t5_tiny", "Unitransformer.z_loss = 0.0")
    logits = plain(features).logits.numpy().astype(np.float64)
    targets = features["targets"]
    log_z = np.log(np.exp(logits).sum(axis=-1))
    of_target = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    smooth = 0.9 * of_target + 0.1 * logits.mean(axis=-1)
    right = np.sum((log_z - smooth + 0.5 * log_z**2) * (targets > 0)) / targets.size
    params = ["decoder/Unitransformer.label_smoothing = 0.1", "Unitransformer.z_loss = 0.5"]
    model = build("t5_tiny", *params)
    assert float(model(features, "train").loss) == pytest.approx(right, rel=1e-5)
    # Smoothing stays in evaluation, as in the original, and the z-loss does not.
    right -= np.sum(0.5 * log_z**2 * (targets > 0)) / targets.size
    assert float(model(features, "eval").loss) == pytest.approx(right, rel=1e-5)


def test_a_loss_denominator_of_its_own(build, features):
    loss = float(build("t5_tiny")(features).loss)
    model = build("t5_tiny", "Unitransformer.loss_denominator = 8.0")
    assert float(model(features).loss) == pytest.approx(loss * 40 / 8, rel=1e-5)


def test_negative_targets_of_a_language_model_are_read_and_not_scored(build, sentences, rows):
    model = build("lm_tiny")
    whole = rows.unpacked(sentences, {"targets": 10})["targets"]
    context = whole.copy()
    context[:, 0] *= -1
    logits = model({"targets": whole}).logits.numpy()
    np.testing.assert_array_equal(model({"targets": context}).logits, logits)
    log_p = logits[:, 0] - np.log(np.exp(logits[:, 0].astype(np.float64)).sum(-1, keepdims=True))
    first = log_p[np.arange(4), whole[:, 0]]
    difference = float(model({"targets": whole}).loss) - float(model({"targets": context}).loss)
    assert difference == pytest.approx(-first.sum() / whole.size, rel=1e-4)


def test_dropped_tokens_are_read_as_padding_in_training_only(build, features):
    whole = build("t5_tiny")
    model = build("t5_tiny", "Unitransformer.token_dropout_rate = 0.999999")
    np.testing.assert_array_equal(model(features).logits, whole(features).logits)
    # As if every id were embedded like padding.
    embedding = whole.variables["shared/embedding"]
    embedding.assign(np.broadcast_to(embedding.numpy()[:1], (128, 32)))
    found, right = (m(features, "train").logits.numpy() for m in (model, whole))
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_dropout_is_drawn_anew_for_another_seed_and_only_in_training(build, features):
    params = ["dropout_rate = 0.5"]
    one, two = (build("t5_tiny", *params, seed=seed) for seed in (1, 2))
    for name, variable in two.variables.items():
        variable.assign(one.variables[name].numpy())
    np.testing.assert_array_equal(one(features).logits, two(features).logits)
    assert (one(features, "train").logits.numpy() != two(features, "train").logits.numpy()).any()
    np.testing.assert_array_equal(one(features, "train").logits, one(features, "train").logits)
