"""What gin says of decoding: the parameters that the original bound, as defaults of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mtf_models.configurable import configurable
from mtf_models.decode.options import EOS, DecodeOptions


@configurable(module="Bitransformer", name="decode")
@dataclass(frozen=True)
class EncoderDecoderDecoding:
    """Of an encoder-decoder.

    Args:
        beam_size: above 1, of a beam search.
        alpha: of its length penalty.
        temperature: above 0, to draw.
        sampling_keep_top_k: draw among so many; -1 for all.
        decode_length_multiplier: a beam search decodes at most so many ids for each id of the
            inputs,
        decode_length_constant: and so many more, unless its caller says how many.
        max_decode_length: how many positions are decoded; None for those of the inputs.
    """

    beam_size: int = 1
    alpha: float = 0.6
    temperature: float = 0.0
    sampling_keep_top_k: int = -1
    decode_length_multiplier: float = 1.5
    decode_length_constant: float = 10
    max_decode_length: int | None = None


@configurable(module="Unitransformer", name="sample_autoregressive")
@dataclass(frozen=True)
class Sampling:
    """Of a decoder, alone or behind an encoder.

    Args:
        stop_at_token: the id that ends a sequence.
        max_steps: at most so many ids are decoded for each row.
        temperature: above 0, to draw; of a decoder alone.
        never_end: whether `stop_at_token` is never chosen.
        sampling_keep_top_k: draw among so many; -1 for all. Of a decoder alone.
        bos_id: what is read before the first id.
    """

    stop_at_token: int = EOS
    max_steps: int | None = None
    temperature: float = 0.0
    never_end: bool = False
    sampling_keep_top_k: int = -1
    bos_id: int = 0


@configurable(module="mesh_tensorflow.beam_search", name="beam_search")
@dataclass(frozen=True)
class Search:
    """Of a beam search.

    Args:
        eos_id: the id that ends a sequence.
        stop_early: see `DecodeOptions`.
        num_prefilter: how many ids of each hypothesis are looked at. The original's 2 is fast and
            may lose the best sequence; 0 is exact.
    """

    eos_id: int = EOS
    stop_early: bool = True
    num_prefilter: int = 0


@dataclass(frozen=True)
class DecodeSettings:
    """What a config says, read under it.

    Attributes:
        options: how to decode.
        has_encoder: whether it is an encoder-decoder.
        max_decode_length: how many positions; None for as many as the model takes by itself.
        max_steps: at most so many ids for each row, or None.
        multiplier: of a beam search's limit by the length of the inputs,
        constant: and what is added.
    """

    options: DecodeOptions
    has_encoder: bool
    max_decode_length: int | None
    max_steps: int | None
    multiplier: float
    constant: float


def decode_settings(has_encoder: bool, asked: dict[str, Any]) -> DecodeSettings:
    """What the active config says, and what a caller asks for instead.

    A caller who asks to draw does not get the config's beam search, nor the other way round.

    Args:
        has_encoder: whether it is an encoder-decoder.
        asked: attributes of `DecodeOptions`; None for what the config says.

    Raises:
        ConfigError: if they do not fit together.
    """
    sampling, network, search = Sampling(), EncoderDecoderDecoding(), Search()
    given = {name: value for name, value in asked.items() if value is not None}
    bound = _bound_of_encoder_decoder(network) if has_encoder else _bound_of_decoder(sampling)
    if given.get("beam_size", 1) > 1:
        bound |= {"temperature": 0.0, "top_k": 0}
    elif any(name in given for name in ("temperature", "top_k", "top_p")):
        bound |= {"beam_size": 1}
    if not given.get("temperature", bound["temperature"]):
        bound |= {"top_k": 0}
    bound |= {"never_end": sampling.never_end, "first_id": sampling.bos_id}
    if given.get("beam_size", bound["beam_size"]) > 1:
        bound |= {"stop_early": search.stop_early, "num_prefilter": search.num_prefilter}
        bound |= {"stop_ids": (search.eos_id,)}
    else:
        bound |= {"stop_ids": (sampling.stop_at_token,)}
    return DecodeSettings(
        options=DecodeOptions(**{**bound, **given}),
        has_encoder=has_encoder,
        max_decode_length=network.max_decode_length if has_encoder else None,
        max_steps=sampling.max_steps,
        multiplier=network.decode_length_multiplier,
        constant=network.decode_length_constant,
    )


def _bound_of_encoder_decoder(network: EncoderDecoderDecoding) -> dict[str, Any]:
    return {
        "beam_size": network.beam_size,
        "alpha": network.alpha,
        "temperature": network.temperature,
        "top_k": max(network.sampling_keep_top_k, 0),
    }


def _bound_of_decoder(sampling: Sampling) -> dict[str, Any]:
    return {
        "beam_size": 1,
        "temperature": sampling.temperature,
        "top_k": max(sampling.sampling_keep_top_k, 0),
    }
