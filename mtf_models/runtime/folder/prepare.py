"""From options to a config, a mesh and a model: what every command does first."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtf_models import config as gin_config
from mtf_models.config import Config, GinSource
from mtf_models.data.vocabularies.places import look_in
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh, devices
from mtf_models.runtime import registry
from mtf_models.runtime.bindings.settings import RunSettings
from mtf_models.runtime.bindings.task_modules import import_tasks, query_task, task_bindings
from mtf_models.runtime.bindings.tasks import Evaluated, mesh_eval_dataset_fn
from mtf_models.runtime.bindings.text_task import described, text_task_bindings
from mtf_models.runtime.folder.recorded_config import CONFIG_FILE
from mtf_models.runtime.folder.run_folder import differences
from mtf_models.runtime.model.build import padding_binding
from mtf_models.runtime.options import (
    BenchOptions,
    ConfigOptions,
    InspectOptions,
    ModelOptions,
    TrainOptions,
)

NewModelOptions = TrainOptions | BenchOptions | InspectOptions
"""Of the commands that build a model from gin files."""

_log = logging.getLogger("mtf_models")


def register(options: ConfigOptions) -> None:
    """Registers what gin may name: our own layers and tasks, and the modules asked for.

    Raises:
        ConfigError: if a module cannot be imported.
    """
    registry.register()
    import_modules(options.module_import)
    if isinstance(options, ModelOptions):
        look_in(Path(options.model_dir))
    if isinstance(options, ModelOptions) and options.data_dir is not None:
        from mtf_models.data.prepared import use_data_dir

        use_data_dir(options.data_dir)


def import_modules(modules: Sequence[str]) -> None:
    """Imports the modules asked for.

    Raises:
        ConfigError: if one cannot be imported.
    """
    if modules:
        # They may register tasks with t5's vocabulary, and ask for it as they are imported.
        from mtf_models.data.t5_tasks import use_shipped_vocabulary

        use_shipped_vocabulary()
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # Whatever a user's module may raise.
            raise ConfigError(
                f"--module_import={module} cannot be imported: {type(error).__name__}: {error}. "
                "Give a module that Python finds from here and can run."
            ) from error


def overrides(options: ConfigOptions) -> dict[str, Any]:
    """The flags that stand for bindings, by name."""
    names = ["mesh", "layout"]
    if isinstance(options, ModelOptions | BenchOptions):
        names.append("batch_size")
    if isinstance(options, TrainOptions | BenchOptions):
        names.append("seed")
    if isinstance(options, TrainOptions):
        names += ["steps", "eval_every", "save_every", "keep", "keep_best"]
    return {name: getattr(options, name) for name in names}


def read_config(options: NewModelOptions, otherwise: GinSource | None = None) -> Config:
    """The config of gin files, bindings and flags.

    Args:
        options: of the command.
        otherwise: what stands in the place of files where none is given.

    Raises:
        ConfigError: if there is neither, or anything in them is wrong.
    """
    if not options.gin_file and otherwise is not None:
        return _parse([otherwise], options)
    if not options.gin_file:
        raise ConfigError(
            "No gin file is given: say which model to build, for example "
            "--gin_file=examples/g2p_tiny.gin."
        )
    return _parse(options.gin_file, options)


def read_recorded_config(recorded: GinSource, options: ModelOptions) -> Config:
    """The config of a model that is there, with the bindings and flags of this command."""
    return gin_config.parse(
        [recorded, *options.gin_file],
        options.gin_param,
        options.gin_location_prefix,
        overrides(options),
    )


def read_resumed_config(folder: Path, options: TrainOptions) -> Config:
    """The config that a run goes on with: the recorded one, and how long, how often and where.

    What else the command asks for is not taken, and a line says so.
    """
    recorded = str(folder / CONFIG_FILE)
    flags = overrides(options)
    changes = {name: flags[name] for name in flags if name not in ("batch_size", "seed")}
    config = gin_config.parse([recorded], overrides=changes)
    asked = _parse(options.gin_file or [recorded], options)
    if left := differences(config, asked):
        _log.info("--resume goes on under the recorded config, and does not take:\n%s", left)
    return config


def _parse(files: Sequence[GinSource], options: NewModelOptions) -> Config:
    """Files, bindings and flags; the padding of vocabularies follows from the mesh in them."""
    flags = overrides(options)
    params = list(options.gin_param)
    folders = options.gin_location_prefix
    config = gin_config.parse(files, params, folders, flags)
    if isinstance(options, TrainOptions) and (chosen := _task_params(options, config)):
        params += chosen
        config = gin_config.parse(files, params, folders, flags)
    if not options.pad_vocab:
        return config
    settings = settings_of(config)
    padding = padding_binding(Mesh(settings.mesh_shape or "", settings.layout_rules))
    return gin_config.parse(files, [*params, padding], folders, flags)


def _task_params(options: TrainOptions, config: Config) -> list[str]:
    """The bindings of the task that flags name or describe; empty if they do neither."""
    is_lm = config.query("utils.run.model_type") == "lm"
    values = described(options, ("targets",) if is_lm else ("inputs", "targets"))
    if values is not None:
        return [text_task_bindings(values), task_bindings(values["name"])]
    return [] if options.task is None else [task_bindings(options.task)]


def settings_of(config: Config) -> RunSettings:
    """What the config says of a run.

    Raises:
        DataError: if it names a task that there is not.
        ConfigError: if it has no length for a feature of its model.
    """
    import_tasks(config)
    with config.active():
        settings = RunSettings()
    needed = ("targets",) if settings.model_type == "lm" else ("inputs", "targets")
    missing = [name for name in needed if name not in settings.sequence_length]
    if missing:
        raise ConfigError(
            f"run.sequence_length is {dict(settings.sequence_length)}: a {settings.model_type} "
            f"needs a length for {' and '.join(missing)} too."
        )
    return settings


def mesh_of(settings: RunSettings) -> Mesh:
    """The mesh that the config asks for.

    Raises:
        LayoutError: if mesh or layout rules cannot be read.
        DeviceError: if the devices are not there.
    """
    mesh = Mesh(settings.mesh_shape or "", settings.layout_rules, named_devices(settings))
    devices.make_virtual_cpus(mesh.size)
    _ = mesh.devices
    return mesh


def named_devices(settings: RunSettings) -> list[str] | None:
    """The devices that the config names; the original names a nameless one where any will do."""
    named = list(settings.mesh_devices or ())
    return named if any(named) else None


def evaluated_by(config: Config, task: str | None = None) -> Evaluated:
    """What the config evaluates, or how it would evaluate another task.

    Args:
        config: of the model.
        task: the task or mixture; None for the config's. What the config says of the tasks of its
            own does not concern another one.

    Raises:
        ConfigError: if it names no task, or says of tasks what nothing knows.
    """
    own = task_name(config) if task is None else query_task(config, "mesh_eval_dataset_fn")
    with config.active():
        found = mesh_eval_dataset_fn(mixture_or_task_name=task or own)
    return found if task in (None, own) else found._replace(options={})


def task_name(config: Config) -> str:
    """The task or mixture that the config evaluates.

    Raises:
        ConfigError: if it names none.
    """
    for function in ("mesh_eval_dataset_fn", "get_vocabulary"):
        name = query_task(config, function)
        if name is not None:
            return name
    raise ConfigError(
        "The config names no task to read: give --task=NAME; or bind "
        "mesh_eval_dataset_fn.mixture_or_task_name, or include 'examples/dataset.gin' and bind "
        "MIXTURE_NAME."
    )
