"""A Hugging Face folder to a run folder, and back; each ends by comparing logits."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_models import config as gin_config
from mtf_models.checkpoint import SLOTS, Entry, HuggingFaceReader, Reader, locate, restore, write
from mtf_models.checkpoint.architecture import Architecture
from mtf_models.checkpoint.fit import fitted
from mtf_models.checkpoint.hugging_face import write_hugging_face
from mtf_models.checkpoint.hugging_face_names import pairs
from mtf_models.checkpoint.locate import folder_of
from mtf_models.checkpoint.names import GLOBAL_STEP, STATE_FILE, is_slot, prefix_of
from mtf_models.checkpoint.single_stack import SingleStack
from mtf_models.checkpoint.source import Source
from mtf_models.checkpoint.state import state_text
from mtf_models.config import Config
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh
from mtf_models.runtime.conversion import tokenizer_files
from mtf_models.runtime.conversion.architecture_of_model import architecture_of
from mtf_models.runtime.conversion.compare_logits import Comparison, compare, write_report
from mtf_models.runtime.folder.recorded_config import CONFIG_FILE, require_run_folder
from mtf_models.runtime.folder.run_folder import RunFolder
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.model.config_of_architecture import config_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import ConvertOptions
from mtf_models.runtime.registry import register
from mtf_models.runtime.whole_file import new_folder

_IN_FLOAT32 = "get_variable_dtype.activation_dtype = 'float32'"


def run(options: ConvertOptions) -> None:
    """Writes a folder of the other format.

    Raises:
        MtfError: if the source cannot be read, or is of a model that the other side cannot have, or
            the result does not compute the same; nothing is written then.
    """
    register()
    if options.to == "hugging_face":
        _export(options)
    else:
        _import(options)


def _import(options: ConvertOptions) -> None:
    _refuse_others(options, allowed=("global_step",))
    source = Path(options.source[0])
    reader = HuggingFaceReader(source)
    config = config_of(reader.architecture, reader.weights_dtype)
    model = model_from_config(config, Mesh(), reader=reader)
    fitted(reader, model.variables)
    step = options.global_step or 0
    with new_folder(options.output) as folder:
        counter = Entry(GLOBAL_STEP, (), tf.int64, [((), np.array(step, np.int64))])
        files = {STATE_FILE: state_text(step, [step])}
        write(prefix_of(folder, step), [counter, *reader.entries()], files)
        RunFolder(folder).describe(config, model)
        tokenizer = tokenizer_files.copy(source, folder)
        written = gin_config.parse([str(folder / CONFIG_FILE)], [_IN_FLOAT32])
        comparison = compare(_restored(written, Reader(prefix_of(folder, step))), source, source)
        write_report(folder, source, comparison)
    _report(source, prefix_of(Path(options.output), step), model.parameters, comparison, tokenizer)


def _export(options: ConvertOptions) -> None:
    _refuse_others(options, allowed=("step",))
    prefix = locate(options.source[0], options.step)
    source = folder_of(prefix)
    require_run_folder(source)
    config = gin_config.parse([str(source / CONFIG_FILE)], [_IN_FLOAT32])
    reader = Reader(prefix)
    model = model_from_config(config, Mesh(), reader=reader)
    stored = fitted(reader, model.variables, allow_left_over=SLOTS)
    architecture = architecture_of(model)
    _check_table(model, architecture)
    with new_folder(options.output) as folder:
        real_ids = model.network.vocab_sizes["targets"]
        write_hugging_face(folder, architecture, reader, stored, real_ids)
        tokenizer = tokenizer_files.write(config, source, folder)
        compared = _compared(model, reader, architecture, folder)
        comparison = compare(compared, folder, options.output)
        write_report(folder, prefix, comparison)
    slots = sum(is_slot(name) for name in reader.names)
    _report(prefix, Path(options.output), model.parameters, comparison, tokenizer, slots)
    if architecture.num_experts:
        print(
            f"experts    take {architecture.expert_capacity} tokens of each sequence there, and "
            "here as MoE1D's capacity says"
        )


def _refuse_others(options: ConvertOptions, allowed: tuple[str, ...]) -> None:
    """Refuses what this conversion would ignore."""
    if len(options.source) > 1:
        raise ConfigError(
            f"{len(options.source)} sources are given, and one is converted to or from Hugging "
            "Face's format: combine them first, by a conversion of its own."
        )
    taken = {"source", "output", "to", *allowed}
    fields = [field for field in dataclasses.fields(options) if field.name not in taken]
    given = [f"--{f.name}" for f in fields if getattr(options, f.name) != f.default]
    if given:
        raise ConfigError(
            f"{', '.join(given)} is for checkpoints of this package: do that first, by a "
            "conversion of its own."
        )


def _restored(config: Config, reader: Source) -> Model:
    model = model_from_config(config, Mesh(), reader=reader)
    restore(reader, model.variables)
    return model


def _compared(
    model: Model, reader: Reader, architecture: Architecture | SingleStack, folder: Path
) -> Model:
    """The model with its weights; one of experts with transformers' rule of which tokens they take.

    That rule knows no groups, so that what is dropped, and it alone, may differ.
    """
    if architecture.num_experts:
        written = HuggingFaceReader(folder)
        return _restored(config_of(written.architecture), written)
    restore(reader, model.variables, allow_left_over=SLOTS)
    return model


def _check_table(model: Model, architecture: Architecture | SingleStack) -> None:
    """Refuses to write anything but exactly the model's variables."""
    table = {pair.ours for pair in pairs(architecture)}
    wrong = [f"{name} is in no table" for name in model.variables if name not in table]
    wrong += [f"{name} is not in the model" for name in table if name not in model.variables]
    if wrong:
        raise ConfigError(
            f"Hugging Face's {architecture.model_type} has other weights than the model, and "
            f"nothing was written: {'; '.join(sorted(wrong))}."
        )


def _report(
    source: Path,
    output: Path,
    parameters: int,
    comparison: Comparison,
    tokenizer: str,
    slots: int = 0,
) -> None:
    print(f"read       {source}")
    if slots:
        print(f"left out   {slots} optimizer slots")
    print(f"wrote      {output}, {parameters:,} parameters")
    print(f"tokenizer  {tokenizer}")
    print(f"logits     {comparison}")
