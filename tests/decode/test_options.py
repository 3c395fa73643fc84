"""What does not fit together is refused, all of it at once."""

import pytest

from mtf_models.decode.options import DecodeOptions
from mtf_models.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "errors"),
    [
        ({"beam_size": 0, "alpha": -1.0}, ["beam_size=0", "alpha=-1.0"]),
        ({"temperature": -0.5, "top_k": -1}, ["temperature=-0.5", "top_k=-1"]),
        ({"temperature": float("nan")}, ["temperature=nan"]),
        ({"top_p": 0.0}, ["top_p=0.0 is not above 0"]),
        ({"top_p": 1.5}, ["top_p=1.5"]),
        ({"repetition_penalty": 0.5}, ["repetition_penalty=0.5"]),
        ({"stop_ids": ()}, ["there are no stop_ids"]),
        ({"beam_size": 2, "temperature": 0.7}, ["(beam_size=2) has no temperature"]),
        ({"beam_size": 2, "top_k": 5, "top_p": 0.5}, ["no top_k", "no top_p"]),
        ({"beam_size": 2, "num_return": 3}, ["num_return=3 is more than beam_size=2"]),
        ({"top_k": 5}, ["set a temperature above 0"]),
        ({"num_return": 2}, ["would all be the same"]),
    ],
)
def test_what_does_not_fit_is_refused(options, errors):
    with pytest.raises(ConfigError) as caught:
        DecodeOptions(**options)
    for error in errors:
        assert error in str(caught.value)
