"""Checkpoints by Mesh TensorFlow's names, averaged, stacked or taken apart."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from mtf_models import config as gin_config
from mtf_models.checkpoint import CheckpointManager, Reader, combine, locate, write
from mtf_models.checkpoint.locate import folder_of
from mtf_models.checkpoint.names import STATE_FILE, is_slot, prefix_of, step_of
from mtf_models.checkpoint.state import state_text
from mtf_models.config.statements import Binding, read
from mtf_models.errors import CheckpointError, ConfigError
from mtf_models.mesh import Mesh
from mtf_models.mesh.dtype import as_dtype
from mtf_models.runtime.folder.recorded_config import CONFIG_FILE
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.options import ConvertOptions
from mtf_models.runtime.registry import register
from mtf_models.runtime.whole_file import new_folder

_log = logging.getLogger("mtf_models")


def run(options: ConvertOptions) -> None:
    """Writes a run folder with the result and the config of the first source.

    Raises:
        ConfigError: if the flags do not fit each other or the number of sources.
            Also if the model has layers that an ensemble cannot have.
        CheckpointError: if a source is missing or torn, or they are not of one model.
    """
    _check_count(options)
    readers = [Reader(prefix) for prefix in _prefixes(options)]
    combination, members = _combination(options)
    step = max(r.step for r in readers) if options.global_step is None else options.global_step
    dtype = None if options.dtype is None else _floating(options.dtype)
    sources = readers * members if options.autoensemble else readers
    entries = combine.combined(sources, combination, step, dtype, options.keep_slots)
    config = _config(readers, members)
    with new_folder(options.output) as folder:
        write(prefix_of(folder, step), entries, {STATE_FILE: state_text(step, [step])})
        if config is not None:
            (folder / CONFIG_FILE).write_text(config, encoding="utf-8")
            if members:
                _check_ensemble(folder, step)
    print(_summary(readers, step, len(entries) - 1, options), end="")


def _check_count(options: ConvertOptions) -> None:
    several = options.average or options.ensemble
    if several and len(options.source) < 2:
        raise ConfigError(
            "One checkpoint cannot be averaged or be an ensemble: give several, or a folder with "
            "--average_last_n or --autoensemble."
        )
    if not several and len(options.source) > 1:
        raise ConfigError(
            f"{len(options.source)} sources are given: say what to make of them, --average or "
            "--ensemble; everything else takes one source."
        )


def _prefixes(options: ConvertOptions) -> list[Path]:
    """The checkpoints that take part, all found before any is read."""
    if options.average_last_n is None:
        return [locate(source, options.step) for source in options.source]
    folder = Path(options.source[0])
    last = locate(folder, options.step)
    if not folder.is_dir():
        raise ConfigError(f"--average_last_n takes a folder with checkpoints; {folder} is one.")
    manager = CheckpointManager(folder)
    steps = [step for step in manager.steps() if step <= step_of(last.name)]
    if len(steps) < options.average_last_n:
        raise CheckpointError(
            f"{folder} has {len(steps)} complete checkpoints, steps {', '.join(map(str, steps))}; "
            f"--average_last_n={options.average_last_n} asks for more."
        )
    return [manager.prefix(step) for step in steps[-options.average_last_n :]]


def _combination(options: ConvertOptions) -> tuple[combine.Combination, int | None]:
    """What becomes of each variable, and how many members the config is to say; None as it does."""
    if options.average or options.average_last_n is not None:
        return combine.average, None
    if options.ensemble:
        return combine.stack, len(options.source)
    if options.autoensemble:
        return combine.stack, options.autoensemble
    return (combine.first, 0) if options.extract_first else (combine.copy, None)


def _floating(name: str) -> tf.DType:
    dtype = as_dtype(name)
    if not dtype.is_floating:
        raise ConfigError(f"--dtype={name} is for whole numbers; weights are float32 or bfloat16.")
    return dtype


def _config(readers: Sequence[Reader], members: int | None) -> str | None:
    """The config of the first source, with another number of members if that is to change."""
    files = [folder_of(reader.prefix) / CONFIG_FILE for reader in readers]
    if not files[0].is_file():
        _log.warning("%s is not there, so the output has no config.", files[0])
        return None
    text = files[0].read_text(encoding="utf-8")
    for file in dict.fromkeys(files[1:]):
        if file.is_file():
            _report_differences(files[0], file)
    if members is None:
        return text
    if members:
        _check_single(text, files[0])
    scopes = {b.scope for b in _bindings(text, files[0]) if _is_ensemble(b)} | {""}
    names = [f"{scope}/Unitransformer" if scope else "Unitransformer" for scope in sorted(scopes)]
    return text.rstrip("\n") + "".join(f"\n{n}.ensemble = {members or None}" for n in names) + "\n"


def _check_single(text: str, file: Path) -> None:
    """Refuses to make members of what has members: a model has one dimension of them."""
    bound = {b.scope: b.value for b in _bindings(text, file) if _is_ensemble(b)}
    there = max((n for n in bound.values() if isinstance(n, int)), default=0)
    if there:
        raise ConfigError(
            f"{file.parent} is an ensemble of {there} already, and its members cannot be ensembles:"
            " take one of them, by --extract_first, or what they were made of."
        )


def _check_ensemble(folder: Path, step: int) -> None:
    """Builds the model that was written, which is refused if members cannot have its layers."""
    register()
    config = gin_config.parse([str(folder / CONFIG_FILE)], ["utils.run.vocabulary = None"])
    model_from_config(config, Mesh(), reader=Reader(prefix_of(folder, step)))


def _report_differences(ours: Path, theirs: Path) -> None:
    """Says which bindings, other than those of the run, differ between two configs."""
    found = [_by_key(_bindings(f.read_text(encoding="utf-8"), f)) for f in (ours, theirs)]
    keys = [key for key in {**found[0], **found[1]} if ".run." not in f".{key}"]
    different = sorted(key for key in keys if found[0].get(key) != found[1].get(key))
    if different:
        _log.warning(
            "%s and %s differ in %s; the first is taken.", ours, theirs, ", ".join(different)
        )


def _bindings(text: str, file: Path) -> list[Binding]:
    return [statement for statement in read(text, str(file)) if isinstance(statement, Binding)]


def _by_key(bindings: Sequence[Binding]) -> Mapping[str, Any]:
    return {f"{b.scope}/{b.selector}.{b.parameter}".strip("/."): repr(b.value) for b in bindings}


def _is_ensemble(binding: Binding) -> bool:
    return binding.selector.endswith("Unitransformer") and binding.parameter == "ensemble"


def _summary(readers: Sequence[Reader], step: int, count: int, options: ConvertOptions) -> str:
    lines = [f"read       {reader.prefix}" for reader in readers]
    left = sum(is_slot(name) for name in readers[0].names)
    if left and not options.keep_slots:
        lines.append(f"left out   {left} optimizer slots (--keep_slots keeps them)")
    lines.append(f"wrote      {prefix_of(Path(options.output), step)}, {count} variables")
    return "\n".join(lines) + "\n"
