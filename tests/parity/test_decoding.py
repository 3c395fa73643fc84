"""Decoding equals the original's."""

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.checkpoint import Reader, locate
from mtf_models.config import parse
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError
from mtf_models.runtime.folder.load import restored_model
from mtf_models.runtime.registry import register

# Tokens share the slots of experts with all that are read together. The original reads prompts with
# the padding behind them, and goes on with each row from its own position.
PROMPTS_SHARE_SLOTS = ("lm_top2_tiny", "moe_ntlb", "moe_top_n")


@pytest.fixture(autouse=True)
def decoding(recorded, model):
    """Where nothing was recorded, nothing can be decoded."""
    if not recorded.decodes:
        with pytest.raises(ConfigError, match="decodes nothing"):
            model.decode({"inputs": recorded["plain/inputs"]})
        pytest.skip("the model does not decode, and says so")
    if recorded.folder.name == "conv_layers":
        with pytest.raises(ConfigError, match='see the next one.*bind "causal"'):
            model.decode({"inputs": recorded["decode/inputs"]})
        pytest.skip("the original sees the next token where it scores, and not where it decodes")


# While it decodes, the original takes every target for the first one of its row: not what it was
# trained for, nor what it scores by.
APART = "encdec_span_bias"


@configurable(module="original_spans")
def first_of_the_row(context):
    """[length, memory_length] int32, where every target stands before the first gap."""
    length, memory = context.length_dim, context.encoder_length_dim
    place = mtf.mtf_range(context.mesh, length) * 0
    return mtf.sub(place, mtf.mtf_range(context.mesh, memory), output_shape=[length, memory])


@pytest.fixture
def decode(recorded, model):
    """Decodes the recorded inputs as the original did."""

    def decode(**options):
        inputs, length = recorded["decode/inputs"], None
        if recorded.is_lm and "beam_size" in options:
            # The original's beam search of a language model reads no prompt.
            wanted = recorded["decode/beam_ids"].shape
            inputs, length = np.zeros([wanted[0], 1], np.int32), wanted[2] - 1
        elif recorded.is_lm:
            # It continues prompts by the length of the targets.
            length = recorded["plain/targets"].shape[1]
        return model.decode({"inputs": inputs}, max_decode_length=length, **options)

    return decode


@pytest.fixture
def recorded_beams(recorded):
    """The sequences that the original found with four beams and no prefilter, and their scores."""
    if not recorded.group("decode/beam_ids"):
        pytest.skip("the original has no beam search of this model")
    return recorded["decode/beam_ids"], recorded["decode/beam_scores"]


def test_greedy_ids(recorded, decode):
    if not recorded.group("decode/greedy_ids"):
        pytest.skip("the original does not decode this model")
    if recorded.folder.name in PROMPTS_SHARE_SLOTS:
        pytest.skip("other tokens share the slots of experts")
    if recorded.folder.name == APART:
        pytest.skip("the original decodes otherwise than it scores")
    np.testing.assert_array_equal(decode().ids, recorded["decode/greedy_ids_cleaned"])


@pytest.mark.parametrize("recorded", [APART], indirect=True)
def test_the_original_decodes_spans_as_if_they_stood_in_the_first_place(recorded):
    fault = "enc_dec_attention_bias.relative_position_fn = @first_of_the_row"
    register()
    sizes = [f"make_bitransformer.{side}_vocab_size = 60" for side in ("input", "output")]
    config = parse([str(recorded.folder / "operative_config.gin")], [*sizes, fault])
    reader = Reader(locate(recorded.folder, 0))
    model = restored_model(reader, config, mtf.Mesh())[0]
    found = model.decode({"inputs": recorded["decode/inputs"]})
    np.testing.assert_array_equal(found.ids, recorded["decode/greedy_ids_cleaned"])


def test_scores_are_those_of_the_decoded_ids(recorded, model):
    if recorded.has_experts:
        pytest.skip("a token that is decoded shares the slots of experts with other tokens")
    if recorded.folder.name == "ensemble":
        pytest.skip("it chooses padding only")
    inputs = recorded["decode/inputs"]
    if recorded.is_lm:  # prompts are read and not scored
        result = model.decode({"inputs": inputs}, max_decode_length=8)
        prompts = model.score({"targets": np.pad(inputs, [[0, 0], [0, 8]])})
        rescored = model.score({"targets": result.ids}) - prompts
    else:
        result = model.decode({"inputs": inputs})
        rescored = model.score({"inputs": inputs, "targets": result.ids})
    # Padding can be chosen, and is not scored when it is given.
    chosen = np.asarray(result.ids)[:, 0] != 0
    assert chosen.any()
    np.testing.assert_allclose(
        np.asarray(result.scores)[chosen], np.asarray(rescored)[chosen], rtol=1e-5
    )


def test_beams(recorded, decode, recorded_beams):
    ids, scores = recorded_beams
    found = decode(beam_size=4, num_return=4)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5)
    np.testing.assert_array_equal(found.ids.numpy()[:, 0], recorded["decode/beam_best"])


def test_rescoring_gives_the_log_probabilities_and_the_scores(
    recorded, decode, model, recorded_beams
):
    if recorded.has_experts:
        pytest.skip("a token that is decoded shares the slots of experts with other tokens")
    found = decode(beam_size=4, num_return=4)
    ids, log_probabilities = found.ids.numpy(), found.log_probabilities.numpy()
    features = {"targets": ids.reshape([-1, ids.shape[-1]])}
    if not recorded.is_lm:
        features["inputs"] = np.repeat(recorded["decode/inputs"], 4, axis=0)
    rescored = model.score(features).numpy().reshape([-1, 4])
    # Id 0 is read while decoding, and is padding in a whole sequence.
    lengths = np.max(np.where(ids != 0, 1 + np.arange(ids.shape[-1]), 0), axis=-1)
    whole = (lengths > 0) & (np.count_nonzero(ids, axis=-1) == lengths)
    assert whole.any()
    np.testing.assert_allclose(log_probabilities[whole], rescored[whole], rtol=1e-5)
    ended = whole & (ids == 1).any(axis=-1)
    penalty = ((5 + lengths) / 6) ** 0.6
    scores = found.scores.numpy()
    np.testing.assert_allclose(scores[ended], (rescored / penalty)[ended], rtol=1e-5)


@pytest.mark.parametrize("recorded", ["t5_1_0_tiny"], indirect=True)
def test_the_original_prefilter_on_request(decode, recorded):
    found = decode(beam_size=4, num_return=4, num_prefilter=2)
    np.testing.assert_array_equal(found.ids, recorded["decode/beam_prefilter2_ids"])
    np.testing.assert_allclose(found.scores, recorded["decode/beam_prefilter2_scores"], rtol=1e-5)
