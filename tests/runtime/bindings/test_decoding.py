"""What the original's names bind is the default of decoding."""

import numpy as np
import pytest

from mtf_models.errors import ConfigError
from mtf_models.runtime.bindings.decoding import decode_settings
from mtf_models.runtime.model.decode_request import length_of

DECODE, SAMPLE = "Bitransformer.decode", "Unitransformer.sample_autoregressive"
BEAMS = [f"{DECODE}.beam_size = 4", f"{DECODE}.alpha = 0.8"]
DRAWS = [f"{DECODE}.temperature = 0.7", f"{DECODE}.sampling_keep_top_k = 12"]


@pytest.fixture
def settings(build):
    def settings(params, name="t5_tiny", **asked):
        model = build(name, "num_layers = 1", *params)
        with model.config.active():
            return decode_settings(name == "t5_tiny", asked)

    return settings


@pytest.mark.parametrize(
    ("params", "asked", "expected"),
    [
        ([], {}, {"beam_size": 1, "temperature": 0, "stop_ids": (1,), "first_id": 0}),
        (BEAMS, {}, {"beam_size": 4, "alpha": 0.8, "stop_early": True, "num_prefilter": 0}),
        (BEAMS, {"alpha": 0.0}, {"beam_size": 4, "alpha": 0.0}),
        (BEAMS, {"temperature": 0.5, "top_p": 0.9}, {"beam_size": 1, "temperature": 0.5}),
        (
            [*BEAMS, "beam_search.num_prefilter = 2", "beam_search.stop_early = False"],
            {},
            {"num_prefilter": 2, "stop_early": False},
        ),
        (DRAWS, {}, {"temperature": 0.7, "top_k": 12}),
        (DRAWS, {"temperature": 0.0}, {"temperature": 0, "top_k": 0}),
        (DRAWS, {"beam_size": 2}, {"beam_size": 2, "temperature": 0, "top_k": 0}),
        (
            [f"{SAMPLE}.stop_at_token = 5", f"{SAMPLE}.bos_id = 2", f"{SAMPLE}.never_end = True"],
            {},
            {"stop_ids": (5,), "first_id": 2, "never_end": True},
        ),
        # What an encoder-decoder draws with is its own affair.
        ([f"{SAMPLE}.temperature = 1.0"], {}, {"temperature": 0}),
    ],
)
def test_an_encoder_decoder(settings, params, asked, expected):
    options = vars(settings(params, **asked).options)
    assert {name: options[name] for name in expected} == expected


def test_a_decoder_alone(settings):
    params = [f"{SAMPLE}.temperature = 0.3", f"{SAMPLE}.sampling_keep_top_k = 7", *BEAMS]
    options = settings(params, "lm_tiny").options
    assert (options.temperature, options.top_k, options.beam_size) == (0.3, 7, 1)


def test_a_config_that_contradicts_itself(settings):
    with pytest.raises(ConfigError, match="has no temperature"):
        settings([*BEAMS, *DRAWS])


@pytest.fixture
def lengths(build):
    """How many ids a model decodes that never ends."""

    def lengths(params, **options):
        inputs = np.array([[5, 6, 1, *[0] * 27], [*[7] * 29, 1]])
        model = build("t5_tiny", "num_layers = 1", f"{SAMPLE}.never_end = True", *params)
        kernel = model.variables["decoder/logits/kernel"]
        kernel.assign(kernel.numpy() * (np.arange(128) > 1))  # Id 0 is never the likeliest.
        ids = model.decode({"inputs": inputs}, **options).ids.numpy()
        return ids.shape[1], [int(np.flatnonzero(row)[-1]) + 1 for row in ids]

    return lengths


@pytest.mark.parametrize(
    ("params", "options", "expected"),
    [
        ([], {}, (30, [30, 30])),
        # At most 1.5 times what the row has, and 10.
        (BEAMS, {}, (30, [14, 30])),
        ([*BEAMS, f"{DECODE}.decode_length_constant = 2"], {}, (30, [6, 30])),
        (BEAMS, {"max_decode_length": 20}, (20, [20, 20])),
        ([f"{DECODE}.max_decode_length = 9"], {}, (9, [9, 9])),
        ([f"{SAMPLE}.max_steps = 4"], {}, (30, [4, 4])),
        ([], {"max_steps": 5}, (5, [5, 5])),
        # However wide the batch is.
        (BEAMS, {"default_length": 36}, (36, [14, 36])),
        ([f"{SAMPLE}.max_steps = 4"], {"default_length": 36}, (36, [4, 4])),
    ],
)
def test_lengths(lengths, params, options, expected):
    assert lengths(params, **options) == expected


INPUTS, TARGETS = 40, 25
RULE = [f"{DECODE}.decode_length_constant = 2"]
OWN = {"default_length": INPUTS}


@pytest.mark.parametrize(
    ("params", "asked", "options", "expected"),
    [
        ([], None, {}, {"max_decode_length": TARGETS}),
        ([], 7, {}, {"max_decode_length": 7}),
        ([], 0, {}, {"max_decode_length": 0}),
        ([], None, {"beam_size": 2}, {"max_decode_length": TARGETS}),
        (BEAMS, None, {}, OWN),
        (BEAMS, 7, {}, {"max_decode_length": 7}),
        (BEAMS, None, {"temperature": 1.0}, {"max_decode_length": TARGETS}),
        (RULE, None, {}, {"max_decode_length": TARGETS}),
        (RULE, None, {"beam_size": 2}, OWN),
        ([f"{DECODE}.max_decode_length = 9"], None, {}, OWN),
        ([f"{SAMPLE}.max_steps = 4"], None, {}, OWN),
    ],
)
def test_lengths_of_commands(build, params, asked, options, expected):
    lengths = f"utils.run.sequence_length = {{'inputs': {INPUTS}, 'targets': {TARGETS}}}"
    model = build("t5_tiny", "num_layers = 1", lengths, *params)
    assert length_of(model, asked, options) == expected


@pytest.mark.parametrize(
    ("steps", "asked", "expected"), [("None", None, 25), (4, None, 4), (4, 7, 7)]
)
def test_lengths_of_commands_with_a_decoder_alone(build, steps, asked, expected):
    params = ["utils.run.sequence_length = {'targets': 25}", f"{SAMPLE}.max_steps = {steps}"]
    model = build("lm_tiny", "num_layers = 1", *params)
    assert length_of(model, asked, {}) == {"max_steps": expected}
