"""From options to a config, a mesh and a model: what every command does first."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any

from mtf_models import config as gin_config
from mtf_models.config import Config
from mtf_models.errors import ConfigError, DeviceError
from mtf_models.mesh import Mesh, devices
from mtf_models.runtime import settings as run
from mtf_models.runtime.options import ModelOptions, TrainOptions
from mtf_models.runtime.settings import RunSettings

_log = logging.getLogger("mtf_models")


def register(options: ModelOptions) -> None:
    """Registers what gin may name: our own layers and tasks, and the modules asked for.

    Raises:
        ConfigError: if a module cannot be imported.
    """
    run.register()
    for module in options.module_import:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ConfigError(
                f"--module_import={module} cannot be imported: {error}. Give a module that Python "
                "finds from here."
            ) from error
    if options.data_dir is not None:
        from mtf_models.data.prepared import use_data_dir

        use_data_dir(options.data_dir)


def overrides(options: ModelOptions) -> dict[str, Any]:
    """The flags that stand for bindings, by name."""
    names = ["mesh", "layout", "batch_size", "seed"]
    if isinstance(options, TrainOptions):
        names += ["steps", "eval_every", "save_every", "keep"]
    return {name: getattr(options, name) for name in names}


def read_config(options: ModelOptions) -> Config:
    """The config of gin files, bindings and flags.

    Raises:
        ConfigError: if no gin file is given, or anything in them is wrong.
    """
    if not options.gin_file:
        raise ConfigError(
            "No gin file is given: say which model to build, for example "
            "--gin_file=examples/g2p_tiny.gin."
        )
    return gin_config.parse(options.gin_file, options.gin_param, overrides=overrides(options))


def read_recorded_config(folder: Path, options: ModelOptions) -> Config:
    """The config of a run folder, with the bindings and flags of this command."""
    return gin_config.parse(
        [str(folder / "operative_config.gin"), *options.gin_file],
        options.gin_param,
        overrides=overrides(options),
    )


def settings_of(config: Config) -> RunSettings:
    """What the config says of a run."""
    with config.active():
        return run.run_settings()


def mesh_of(settings: RunSettings, recorded: bool = False, strict: bool = False) -> Mesh:
    """The mesh that the config asks for.

    Args:
        settings: of the config.
        recorded: whether the mesh is that of an earlier run, which another machine may have made;
            then it is shrunk to the devices that there are, largest axes first.
        strict: whether shrinking is refused.

    Raises:
        DeviceError: if it must not be shrunk and there are too few devices.
    """
    named = list(settings.mesh_devices) if settings.mesh_devices else None
    if named and not any(named):  # the original's way to say "anything"
        named = None
    mesh = Mesh(settings.mesh_shape or "", settings.layout_rules, named)
    devices.make_virtual_cpus(mesh.size if not recorded else 1)
    there = devices.available()
    if not recorded or mesh.size <= there:
        return mesh
    smaller = shrink(mesh.axes, there)
    product = 1
    for size in smaller.values():
        product *= size
    if strict:
        raise DeviceError(
            f"The recorded mesh {mesh} has {mesh.size} devices and this process has {there}. Drop "
            "--strict_mesh to use fewer, or give --mesh."
        )
    used = "x".join(str(n) for n in smaller.values() if n > 1) or "1"
    _log.info("recorded mesh %s → using %s", "x".join(map(str, mesh.axes.values())), used)
    return Mesh([(a, n) for a, n in smaller.items() if n > 1], settings.layout_rules)


def shrink(axes: dict[str, int], count: int) -> dict[str, int]:
    """Axes that fit on `count` devices: the small ones keep their size, as far as it divides."""
    left, smaller = count, dict(axes)
    for name in sorted(axes, key=axes.get):
        size = axes[name]
        smaller[name] = max(n for n in range(1, size + 1) if size % n == 0 and n <= left)
        left //= smaller[name]
    return smaller


def task_name(config: Config) -> str:
    """The task or mixture that the config evaluates.

    Raises:
        ConfigError: if it names none.
    """
    name = config.query("mesh_transformer.mesh_eval_dataset_fn.mixture_or_task_name")
    name = name or config.query("mesh_transformer.get_vocabulary.mixture_or_task_name")
    if name is None:
        raise ConfigError(
            "The config names no task to read: bind mesh_eval_dataset_fn.mixture_or_task_name, or "
            "include 'examples/dataset.gin' and bind MIXTURE_NAME."
        )
    return name
