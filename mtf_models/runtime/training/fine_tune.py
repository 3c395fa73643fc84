"""Fine-tuning: the config of a run that begins with the checkpoint of another one.

Everything that the flags ask for becomes a binding, which the run folder records. A command that
is repeated thus comes to the config that is there, and the run goes on; another one is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mtf_models import config as gin_config
from mtf_models.checkpoint import CheckpointManager
from mtf_models.checkpoint.locate import folder_of, prefix_in
from mtf_models.config import Config
from mtf_models.config.keys import expand
from mtf_models.errors import CheckpointError, ConfigError
from mtf_models.optimize.adafactor import AdafactorOptimizer
from mtf_models.runtime.bindings.variable_filter import filter_text, lines_of
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.folder.model_folder import ModelFolder
from mtf_models.runtime.folder.recorded_config import read_folder_config
from mtf_models.runtime.folder.run_folder import RunFolder
from mtf_models.runtime.options import TrainOptions
from mtf_models.runtime.training.initial_checkpoint import Beginning, InitialCheckpoint, has_slots
from mtf_models.runtime.training.trainer import Trainer

_INIT_CHECKPOINT = "utils.run.init_checkpoint"
_OFFSET = "adafactor_decay_rate_pow.offset"


def check_options(options: TrainOptions) -> None:
    """Refuses options that contradict each other.

    Raises:
        ConfigError: if they do.
    """
    if options.init_from is None:
        names = ("init_step", "init_steps", "init_optimizer")
        given = [name for name in names if getattr(options, name) is not None]
        if given:
            raise ConfigError(
                f"--{' and --'.join(given)} say how a run begins with --init_from, which is not "
                "given."
            )
        return
    if options.resume:
        raise ConfigError(
            "--init_from begins a run, and --resume goes on with the one that is in --model_dir: "
            "give one of them."
        )
    if options.steps is None:
        raise ConfigError("--init_from needs --steps: how many steps to train from there.")
    if folder_of(options.init_from).resolve() == Path(options.model_dir).resolve():
        raise ConfigError(
            f"--init_from and --model_dir are both {options.model_dir}: take a new --model_dir, or "
            "drop --init_from to train on there."
        )


def read_config(folder: RunFolder, options: TrainOptions) -> Config:
    """The config of a run that begins with `options.init_from`.

    It is that of its folder, unless gin files are given, with the bindings and flags of the
    command.

    Args:
        folder: of the new run; one that was begun from there before keeps its checkpoint.
        options: of the command.

    Raises:
        MtfError: if there is no such checkpoint or config.
    """
    source = _source(folder, options)
    config = _asked_config(source, options)
    _check_one_beginning(config, source.folder)
    bindings = list(_bindings(source, config, options))
    return _asked_config(source, replace(options, gin_param=(*options.gin_param, *bindings)))


def read_asked_config(folder: RunFolder, options: TrainOptions) -> Config:
    """The config before the bindings that say how the run begins: its tasks need not be known yet.

    Args:
        folder: see `read_config`.
        options: of the command.

    Raises:
        MtfError: see `read_config`.
    """
    return _asked_config(_source(folder, options), options)


def config_of(folder: ModelFolder) -> Config | None:
    """The config of the model to begin with, if its folder has one."""
    return gin_config.parse([folder.gin]) if folder.has_config else None


def text(trainer: Trainer, begun: Beginning, before: Config | None) -> str:
    """What a run begins with, and what it makes of it.

    Args:
        trainer: as it was begun.
        begun: from where.
        before: the config of the run that the checkpoint is of, if it is known.
    """
    config = trainer.model.config
    decay = config.query(_OFFSET, 0)
    counted = "the learning-rate schedule too; --init_steps={} counts from {}"
    origin = (
        f"on from the checkpoint, {counted.format('zero', 0)}"
        if trainer.step_number
        else f"from 0, {counted.format('checkpoint', begun.step)}"
    )
    kept = (
        f"kept, the slots of {begun.slots_of} of {len(trainer.trained)} variables"
        if begun.slots_of
        else "fresh" + (f", its decay counted from step {decay}" if decay else "")
    )
    lines = [
        f"begun from {begun.prefix}",
        f"  steps      counted {origin}",
        f"  optimizer  {kept}",
    ]
    if begun.new:
        lines.append(f"  new        {len(begun.new)} variables: {', '.join(begun.new)}")
    lines += [f"  {line}" for line in carried_over(config, before)]
    return "\n".join(lines)


def carried_over(config: Config, before: Config | None) -> Iterator[str]:
    """What users want to know of the pre-training: its dropout, and what its loss is divided by.

    Args:
        config: to train with.
        before: of the run that this one begins with, if it is known.

    Yields:
        Lines for a reader.
    """
    denominator = config.query("decoder/Unitransformer.loss_denominator")
    if denominator is not None:
        yield f"loss       the sum over {denominator:g}: Unitransformer.loss_denominator"
    rates = _dropout_rates(config)
    if before is not None and not any(_dropout_rates(before)):
        now = ", ".join(f"{rate:g}" for rate in sorted(rates))
        yield (
            f"dropout    {now}; it was 0 before"
            if any(rates)
            else "dropout    0, as before; fine-tuning mostly wants some: "
            f"--gin_param={shlex.quote('dropout_rate = 0.1')}"
        )


def trained_text(trainer: Trainer) -> str | None:
    """What a run with a filter trains; None without a filter."""
    chosen_by = trainer.model.settings.variable_filter
    if chosen_by is None:
        return None
    lines = lines_of(trainer.trained, trainer.model.variables.values())
    return "\n".join([f"trains     {lines[0]}, by {filter_text(chosen_by)}:", *lines[1:]])


def _check_one_beginning(config: Config, folder: ModelFolder) -> None:
    """Refuses a config that asks for another beginning, unless the other run had it itself."""
    asked, before = config.query(_INIT_CHECKPOINT), config_of(folder)
    theirs = None if before is None else before.query(_INIT_CHECKPOINT)
    if asked not in (None, theirs):
        raise ConfigError(
            f"--init_from={folder.path} and run.init_checkpoint = {asked!r} are two beginnings: "
            "give one of them."
        )


def _asked_config(source: InitialCheckpoint, options: TrainOptions) -> Config:
    """The config of the options, else of the folder, without the steps to count from it."""
    otherwise = None if options.gin_file else source.folder.gin
    return prepare.read_config(replace(options, steps=None), otherwise)


def _source(folder: RunFolder, options: TrainOptions) -> InitialCheckpoint:
    """The checkpoint asked for, else that from which the run in the folder was begun already."""
    begun = _recorded_beginning(folder, options)
    try:
        if begun is None or _names_one(options):
            return InitialCheckpoint.find(options.init_from, options.init_step)
        return InitialCheckpoint.find(begun)
    except CheckpointError as error:
        if begun is None or CheckpointManager(folder.path).latest() is None:
            raise
        raise CheckpointError(
            f"{error} The run in {folder.path} began with {begun}, and goes on without it: give "
            "--resume in place of --init_from."
        ) from error


def _recorded_beginning(folder: RunFolder, options: TrainOptions) -> str | None:
    """The checkpoint that the run in the folder began with, if it is in the folder asked for."""
    if options.overwrite or not folder.config_file.exists():
        return None
    recorded = read_folder_config(folder.path).query(_INIT_CHECKPOINT)
    asked = folder_of(options.init_from).resolve()
    return recorded if recorded is not None and folder_of(recorded) == asked else None


def _names_one(options: TrainOptions) -> bool:
    """Whether the options say which checkpoint of the folder is meant."""
    return options.init_step is not None or prefix_in(Path(options.init_from)) is not None


def _bindings(source: InitialCheckpoint, config: Config, options: TrainOptions) -> Iterator[str]:
    counts_on = options.init_steps != "zero"
    yield f"{_INIT_CHECKPOINT} = {str(source.prefix.resolve())!r}"
    yield f"utils.run.train_steps = {options.steps + (source.step if counts_on else 0)}"
    yield f"utils.run.init_steps = {options.init_steps or 'checkpoint'!r}"
    yield f"utils.run.init_strict = {not options.allow_partial}"
    settings = prepare.settings_of(config)
    with config.active():
        optimizer = (settings.optimizer or AdafactorOptimizer)()
    there = has_slots(source.reader, optimizer, settings.variable_filter)
    if options.init_optimizer == "keep" and not there:
        raise ConfigError(
            f"--init_optimizer=keep: {source.prefix} has no slots of {type(optimizer).__name__} "
            "for what is trained. Begin with fresh ones: --init_optimizer=fresh."
        )
    chosen = options.init_optimizer or ("keep" if there else "fresh")
    yield f"utils.run.init_optimizer = {chosen!r}"
    # Slots that begin at zero would stay far too small for as long as the count is: their decay is
    # that of the step. The config's own offset, 0 where it is merely recorded, gives way.
    if chosen == "fresh" and counts_on and not config.query(_OFFSET, 0):
        yield f"{_OFFSET} = {source.step}"


def _dropout_rates(config: Config) -> set[float]:
    bound = [v for key, v in config.bindings.items() if key.parameter == "dropout_rate"]
    values = (expand(value, config.macros) for value in bound)
    return {value for value in values if isinstance(value, int | float)}
