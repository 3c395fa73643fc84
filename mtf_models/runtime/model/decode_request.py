"""Decoding with a model: what is asked for is checked, and laid out for the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.data.delimited import ended
from mtf_models.decode.listener import ListenerFunction
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.result import DecodeResult
from mtf_models.errors import ConfigError, DataError, did_you_mean, require_positive
from mtf_models.runtime.bindings.decoding import DecodeSettings, decode_settings
from mtf_models.runtime.model.decode_plan import DecodePlan
from mtf_models.runtime.model.draws import uniforms, without_padding
from mtf_models.transformer.delimited import DelimitedUnitransformer
from mtf_models.transformer.unitransformer import Unitransformer

if TYPE_CHECKING:
    from mtf_models.config import Config
    from mtf_models.runtime.model.model import Model


@dataclass(frozen=True)
class DecodeRequest:
    """What a call of `Model.decode` asks for.

    Attributes:
        options: attributes of `DecodeOptions`; what is missing or None is as the config says.
        seed: of what is drawn; None for the model's.
        max_decode_length: how many positions are decoded, or added to prompts.
        max_steps: at most so many ids for each row, whatever padding its prompt has.
        prefix: [batch, length] ids that the result of an encoder-decoder begins with, 0 after
            their end.
        row_numbers: one for each row, so that equal rows draw different ids.
        default_length: what an encoder-decoder decodes where neither this nor the config says how
            many positions; None for those of the inputs.
        listener: called with each position and the ids chosen there, see
            `decode.listener.ListenerFunction`; on one device, and not with a beam search.
    """

    options: Mapping[str, Any]
    seed: int | None = None
    max_decode_length: int | None = None
    max_steps: int | None = None
    prefix: Any = None
    row_numbers: Sequence[int] | None = None
    default_length: int | None = None
    listener: ListenerFunction | None = None

    @classmethod
    def of(cls, **asked: Any) -> DecodeRequest:
        """A request of attributes of this class and of `DecodeOptions` together.

        Raises:
            ConfigError: if one is unknown.
        """
        own = {field.name for field in fields(cls)} - {"options"}
        known = own | {field.name for field in fields(DecodeOptions)}
        unknown = [f"{n}{did_you_mean(n, known)}" for n in asked if n not in known]
        if unknown:
            raise ConfigError(f"decode has no argument {' '.join(unknown)}")
        options = {name: value for name, value in asked.items() if name not in own}
        return cls(options, **{name: value for name, value in asked.items() if name in own})

    def __post_init__(self) -> None:
        for name in ("max_decode_length", "max_steps", "default_length"):
            if getattr(self, name) is not None:
                require_positive("decode", **{name: getattr(self, name)})
        if self.seed is not None and not (isinstance(self.seed, int) and self.seed >= 0):
            raise ConfigError(f"decode has seed = {self.seed!r}; give a whole number from 0.")


def settings_of(model: Model, request: DecodeRequest) -> DecodeSettings:
    """What the config and a request say together.

    Raises:
        ConfigError: if they do not fit together.
    """
    with model.config.active():
        return decode_settings(not isinstance(model.network, Unitransformer), request.options)


def length_of(model: Model, asked: int | None, options: Mapping[str, Any]) -> dict[str, int]:
    """How many ids a command decodes for each row, whatever batch the row is in.

    It is what is asked for, else what the config says of decoding; where it says nothing, as many
    as its targets have.

    Args:
        model: what decodes.
        asked: at most so many.
        options: attributes of `DecodeOptions` that are asked for.

    Returns:
        Attributes of `DecodeRequest`.

    Raises:
        ConfigError: if what is asked for does not fit together.
    """
    settings = settings_of(model, DecodeRequest(options))
    lengths = model.settings.sequence_length
    if not settings.has_encoder:
        # Padding of prompts, which depends on the batch, must not count.
        found = settings.max_steps or lengths["targets"]
        return {"max_steps": found if asked is None else asked}
    if asked is None and _says_length(model.config, settings):
        return {"default_length": lengths["inputs"]}
    return {"max_decode_length": lengths["targets"] if asked is None else asked}


def _says_length(config: Config, settings: DecodeSettings) -> bool:
    """Whether a config says how many ids an encoder-decoder decodes, or searches beams itself."""
    if settings.max_decode_length is not None or settings.max_steps is not None:
        return True
    names = ("beam_size", "decode_length_multiplier", "decode_length_constant")
    size, *rule = (config.query(f"Bitransformer.decode.{name}") for name in names)
    return settings.options.is_beam_search and ((size or 1) > 1 or rule != [None, None])


def plan_of(
    model: Model, settings: DecodeSettings, request: DecodeRequest, width: int, begun: int = 0
) -> DecodePlan:
    """What a graph does to decode.

    Args:
        model: what decodes.
        settings: of the config and the request, from `settings_of`.
        request: how many positions are wanted.
        width: how many positions the inputs have at the most.
        begun: how many positions an encoder-decoder is given to begin with.

    Raises:
        DataError: if it is given all that would be decoded.
    """
    found, asked = request.max_decode_length, request.max_decode_length or request.max_steps
    if found is None and request.max_steps is not None:
        found = begun + request.max_steps
    if found is None:
        found = settings.max_decode_length
    if found is None and settings.has_encoder:
        found = request.default_length or width
    if found is None:
        found = settings.max_steps or model.settings.sequence_length["targets"]
    if begun >= found:
        raise DataError(
            f"The prefix has {begun} positions, and {found} are decoded, the prefix counted: "
            "shorten it, or ask for a longer max_decode_length."
        )
    by_inputs = settings.has_encoder and settings.options.is_beam_search and asked is None
    return DecodePlan(
        options=settings.options,
        has_encoder=settings.has_encoder,
        added=found,
        max_steps=request.max_steps or settings.max_steps,
        rule=(settings.multiplier, settings.constant) if by_inputs else None,
    )


def decode(model: Model, features: Mapping[str, Any], request: DecodeRequest) -> DecodeResult:
    """Decodes a batch.

    Args:
        model: what decodes.
        features: "inputs"; "targets" are not read.
        request: the rest.

    Raises:
        ConfigError: if what is asked for does not fit together.
        DataError: if features, prefix or row numbers do not fit.
    """
    settings = settings_of(model, request)
    rows = {name: x for name, x in features.items() if name != "targets"}
    names = ("inputs",)
    if request.prefix is not None:
        if not settings.has_encoder:
            raise ConfigError(
                "A decoder-only model takes what its ids begin with as inputs: give no prefix."
            )
        rows["targets"], names = request.prefix, ("inputs", "targets")
    if isinstance(model.network, DelimitedUnitransformer):
        rows["inputs"] = ended(rows["inputs"])
    tensors = model.tensors(rows, names=names)
    batch = _Batch({name: np.asarray(rows[name]) for name in names}, settings, request)
    plan, listening = plan_of(model, settings, request, batch.width, batch.begun), nullcontext()
    if request.listener is not None:
        plan = replace(plan, options=replace(plan.options, listener=model.listener))
        listening = model.listener.calling(request.listener)
    if plan.options.draws:
        length, count = plan.positions(batch.width), plan.options.num_return
        draws = batch.draws(length, model.seed)
        shape = [("batch", len(draws)), ("beam", count), ("length", length)]
        tensors["uniforms"] = mtf.import_tf_tensor(model.mesh, draws, shape)
    run = model.compiled(("decode", plan), lambda x: dict(vars(plan.run(model, x))))
    with listening:
        return DecodeResult(**run(tensors))


class _Batch:
    """The rows of one call, on the host.

    Args:
        arrays: "inputs" and, if something is given to begin with, "targets", [batch, length].
        settings: what the config says.
        request: what the caller says.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], settings: DecodeSettings, request: DecodeRequest
    ) -> None:
        self.settings = settings
        self.request = request
        self.width = arrays["inputs"].shape[1]
        self.inputs = without_padding(arrays["inputs"])
        self.prefix = arrays.get("targets")
        self.begun = 0 if self.prefix is None else self.prefix.shape[1]

    def draws(self, length: int, seed: int) -> np.ndarray:
        """[batch, beam, length] float32, see `draws.uniforms`.

        Args:
            length: how many positions there are.
            seed: if the caller gave none.
        """
        numbers = self.request.row_numbers
        numbers = [0] * len(self.inputs) if numbers is None else list(numbers)
        if len(numbers) != len(self.inputs):
            raise DataError(
                f"There are {len(numbers)} row_numbers and {len(self.inputs)} rows: give each one."
            )
        contents = self.inputs
        if self.prefix is not None:
            begun = without_padding(self.prefix)
            contents = [np.append(row, [-1, *g]) for row, g in zip(contents, begun, strict=True)]
        seed = seed if self.request.seed is None else self.request.seed
        return uniforms(seed, contents, numbers, self.settings.options.num_return, length)
