"""Writing a model as a SavedModel of one device, which nothing but TensorFlow is needed to open."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from mtf_models.data.encoding import Encoding
from mtf_models.errors import CheckpointError, ConfigError, failing_run
from mtf_models.mesh.size import UnknownSizeError
from mtf_models.runtime.model.decode_plan import DecodePlan
from mtf_models.runtime.model.decode_request import DecodeRequest, plan_of, settings_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.using.batches import batch_rows
from mtf_models.runtime.using.serving_module import ServedText, ServingModule, Signature
from mtf_models.runtime.using.text_codec import codec_of
from mtf_models.runtime.whole_file import new_folder

DEFAULT = "serving_default"
SCORE = "score"
BEAM_SIZE, TEMPERATURE = 4, 1.0
"""Of the beam search and of drawing, where neither config nor caller says another."""

_REPETITION = ("repetition_penalty", "no_repeat_ngram")

_log = logging.getLogger("mtf_models")


@dataclass(frozen=True)
class Export:
    """What is to be written.

    Attributes:
        model: on `Mesh.unplaced()`.
        encodings: of "inputs" and "targets".
        plans: name of a signature to how it decodes.
        default: the name of the signature that is the default too.
        source: where the model comes from, to be printed.
        batch_size: how many rows a model that needs fixed sizes runs at a time, if that is asked
            for; else the config's.
    """

    model: Model
    encodings: Mapping[str, Encoding]
    plans: Mapping[str, DecodePlan]
    default: str
    source: str
    batch_size: int | None = None


def plans_of(
    model: Model,
    asked: Mapping[str, Any],
    length: Callable[[Mapping[str, Any]], Mapping[str, int]] = lambda options: {},
) -> dict[str, DecodePlan]:
    """How the signatures `greedy`, `beam` and `sample` decode.

    Args:
        model: what decodes.
        asked: attributes of `DecodeOptions`; None for what the config says.
        length: takes such attributes, and says in those of `DecodeRequest` how much is decoded; by
            default what `Model.decode` decodes of inputs of the full length.

    Raises:
        ConfigError: if they do not fit together.
    """
    config = settings_of(model, DecodeRequest({})).options
    given = {name: value for name, value in asked.items() if value is not None}

    def of(*names: str) -> dict[str, Any]:
        return {name: given[name] for name in names if name in given}

    greedy = {"beam_size": 1, "temperature": 0.0, **of(*_REPETITION)}
    beam = {"beam_size": config.beam_size if config.is_beam_search else BEAM_SIZE}
    beam |= of("beam_size", "alpha", "num_return", "no_repeat_ngram")
    if given.get("num_return", 1) > 1:
        # All of them are the best ones, whatever else is in the batch.
        beam["stop_early"] = False
    sample = {"temperature": config.temperature or TEMPERATURE, "beam_size": 1}
    sample |= of("temperature", "top_k", "top_p", "num_return", *_REPETITION)
    if not beam["beam_size"] > 1 or not sample["temperature"] > 0:
        raise ConfigError(
            f"A beam search has a beam_size above 1, not {beam['beam_size']}, and drawing a "
            f"temperature above 0, not {sample['temperature']}; what is greedy is exported anyhow."
        )
    ways = {"greedy": greedy, "beam": beam, "sample": sample}
    return {name: _plan(model, options, length(options)) for name, options in ways.items()}


def default_of(model: Model) -> str:
    """The name of the signature that decodes as the config says."""
    config = settings_of(model, DecodeRequest({})).options
    return "beam" if config.is_beam_search else "sample" if config.draws else "greedy"


def write(export: Export, folder: str | Path) -> None:
    """Writes a SavedModel and says what is in it.

    Raises:
        ConfigError: if the folder is there, or TensorFlow has no operations for a vocabulary.
        CheckpointError: if it cannot be written; nothing is left of it then.
    """
    texts = _texts(export)
    with new_folder(folder) as aside, export.model.config.active():
        module, signatures = _built(export, texts)
        with failing_run():
            _save(module, signatures, aside, folder)
    _report(export, texts, Path(folder))


def _plan(model: Model, options: Mapping[str, Any], length: Mapping[str, int]) -> DecodePlan:
    request = DecodeRequest.of(**options, **length)
    longest = _lengths(model)["inputs"]
    return plan_of(model, settings_of(model, request), request, longest)


def _lengths(model: Model) -> dict[str, int]:
    lengths = model.settings.sequence_length
    return {"inputs": lengths.get("inputs", lengths["targets"]), "targets": lengths["targets"]}


def _texts(export: Export) -> dict[str, ServedText]:
    sizes, lengths = export.model.network.vocab_sizes, _lengths(export.model)
    found = {}
    for name, (vocabulary, end) in export.encodings.items():
        codec = codec_of(vocabulary)
        if codec.size > sizes[name]:
            raise ConfigError(
                f"The vocabulary of the {name} has {codec.size} ids and the model {sizes[name]}: "
                "give the task that it was trained on, --task=NAME."
            )
        found[name] = ServedText(codec, end, lengths[name])
    return found


def _built(
    export: Export, texts: Mapping[str, ServedText]
) -> tuple[ServingModule, dict[str, Signature]]:
    """The module and its signatures, for batches of any size if the model can do that."""
    module = ServingModule(export.model, texts)
    try:
        signatures = _signatures(module, export)
    except UnknownSizeError as reason:
        rows = export.batch_size or batch_rows(export.model)
        _log.warning(
            "The model runs %d rows at a time, padded to %d ids, since it cannot be traced for "
            "any number of them (--batch_size sets it). %s",
            rows,
            texts["inputs"].longest,
            str(reason).partition("\n")[0],
        )
    else:
        if export.batch_size is not None:
            _log.warning(
                "--batch_size=%d does nothing: the model runs any number of rows.",
                export.batch_size,
            )
        return module, signatures
    module = ServingModule(export.model, texts, fixed_rows=rows)
    return module, _signatures(module, export)


def _signatures(module: ServingModule, export: Export) -> dict[str, Signature]:
    found = {n: module.predicting(p, seeded=p.options.draws) for n, p in export.plans.items()}
    found[SCORE] = module.scoring()
    default = export.plans.get(export.default)
    if default is not None and default.options.draws:
        found[DEFAULT] = module.predicting(default)
    else:
        found[DEFAULT] = found[export.default]
    return found


def _save(
    module: ServingModule, signatures: Mapping[str, Signature], aside: Path, folder: str | Path
) -> None:
    try:
        tf.saved_model.save(module, str(aside), dict(signatures))
    except tf.errors.OpError as error:
        raise CheckpointError(
            f"{folder} cannot be written: {error.message}. Make room, or give another folder."
        ) from error


def _report(export: Export, texts: Mapping[str, ServedText], folder: Path) -> None:
    weights = folder / "variables"
    size = sum(file.stat().st_size for file in folder.rglob("*"))
    stored = sum(file.stat().st_size for file in weights.iterdir())
    model, lengths = export.model, _lengths(export.model)
    beam, sample = export.plans["beam"].options, export.plans["sample"].options
    print(f"Wrote {folder}: {size / 1e6:,.1f} MB, of them {stored / 1e6:,.1f} MB of variables.")
    print(f"parameters {model.parameters:,}, of {export.source}")
    print(
        f"signatures greedy, beam ({beam.beam_size} hypotheses, alpha {beam.alpha:g}), sample "
        f"(temperature {sample.temperature:g}, takes a seed), score; the default is "
        f"{export.default}"
    )
    print(
        f"lengths    inputs are read up to {lengths['inputs']} ids, {export.plans['greedy'].added} "
        "are decoded; `trimmed` says how many ids of an input were cut"
    )
    needs = any(text.codec.needs_tensorflow_text for text in texts.values())
    print(f"opens with tensorflow{' and tensorflow-text' if needs else ' alone'}")
