"""What a command asks of decoding, checked before anything is decoded."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import Any

from mtf_models.decode.options import DecodeOptions
from mtf_models.errors import ConfigError
from mtf_models.runtime.bindings.decoding import DecodeSettings
from mtf_models.runtime.model.decode_request import DecodeRequest, length_of, settings_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import DecodingOptions, InferOptions

_log = logging.getLogger("mtf_models")

TEXT_OPTIONS = (*(f.name for f in fields(DecodingOptions)), "seed", "prefix", "stop")
"""What of the flags a decoded text depends on."""

DECODING = tuple(f.name for f in fields(DecodingOptions) if f.name != "max_decode_length")
"""The options that are attributes of `DecodeOptions`."""


def asked_of(model: Model, options: InferOptions) -> dict[str, Any]:
    """The arguments of `Model.decode` that options come to; what does nothing is named.

    Raises:
        ConfigError: if they do not fit together.
    """
    asked = {name: getattr(options, name) for name in DECODING}
    asked |= {"seed": options.seed, **length_of(model, options.max_decode_length, asked)}
    if options.prefix is not None and "max_decode_length" in asked:
        asked["max_steps"] = asked.pop("max_decode_length")  # What is given is not counted.
    if (options.num_return or 1) > 1:
        # All of them are the best ones, whatever else is in the batch.
        asked["stop_early"] = False
    settings = settings_of(model, DecodeRequest.of(**asked))
    _check_texts(model, options, settings)
    _say_idle(options, settings.options)
    return asked


def follows(model: Model, decoding: DecodeOptions) -> bool:
    """Whether a listener can follow the decoding."""
    return model.mesh.size == 1 and not decoding.is_beam_search


def _check_texts(model: Model, options: InferOptions, settings: DecodeSettings) -> None:
    if options.prefix is not None and not settings.has_encoder:
        raise ConfigError(
            "--prefix is of an encoder-decoder, and this model continues its inputs: put the "
            "prefix at their end."
        )
    if "" in options.stop:
        raise ConfigError(
            "--stop is an empty text, which every prediction begins with, so all of them would be "
            "empty: give the text that ends them, or leave it out."
        )
    if options.stop and not follows(model, settings.options):
        raise ConfigError(
            "--stop ends texts while they are decoded, which a beam search and a mesh of several "
            f"devices do not tell (beam_size={settings.options.beam_size}, mesh {model.mesh}): "
            "leave it out, or decode greedily or by drawing on one device."
        )


def _say_idle(options: InferOptions, decoding: DecodeOptions) -> None:
    """Names the options that change nothing in the way of decoding that is taken."""
    if options.alpha is not None and decoding.beam_size == 1:
        _log.warning(
            "--alpha=%s is of a beam search: without --beam_size it does nothing.", options.alpha
        )
    if options.seed is not None and not decoding.draws:
        _log.warning(
            "--seed=%s is of drawing: without --temperature it does nothing.", options.seed
        )
