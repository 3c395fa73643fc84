"""The variables of a checkpoint, or of a config that nobody has allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from mtf_models.checkpoint import CheckpointManager
from mtf_models.checkpoint.names import GLOBAL_STEP, is_slot
from mtf_models.checkpoint.source import Source
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.folder.model_folder import model_folder
from mtf_models.runtime.folder.run_folder import variables_text
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.options import InspectOptions


def run(options: InspectOptions) -> None:
    """Prints the variables of a folder, a checkpoint or a config.

    Raises:
        MtfError: if not exactly one of path and gin files is given, or it cannot be read.
    """
    if options.path is None:
        if not options.gin_file:
            raise ConfigError(
                "Give a run folder, the prefix of a checkpoint, a Hugging Face folder, or "
                "--gin_file."
            )
        if options.step is not None:
            raise ConfigError("--step is of a folder with checkpoints, and a config has none.")
        print(config_text(options), end="")
    elif options != InspectOptions(path=options.path, step=options.step):
        raise ConfigError(
            "A path alone, or --gin_file with what changes the config: a checkpoint holds what it "
            "holds, whatever mesh, layout or binding."
        )
    else:
        print(checkpoint_text(Path(options.path), options.step), end="")


def config_text(options: InspectOptions) -> str:
    """The variables of a config: shapes, splits, bytes on each device. Nothing is allocated.

    Raises:
        MtfError: if the config cannot be read, or the layout does not fit.
    """
    prepare.register(options)
    config = prepare.read_config(options)
    settings = prepare.settings_of(config)
    mesh = Mesh(settings.mesh_shape or "", settings.layout_rules)
    model = model_from_config(config, mesh, strict=options.strict)
    return variables_text(model)


def checkpoint_text(path: Path, step: int | None = None) -> str:
    """The variables and slots of a checkpoint: names, shapes and dtypes.

    Args:
        path: a folder with checkpoints, or one of them, with or without its ending; or a folder of
            Hugging Face's.
        step: which checkpoint of the folder; None for the latest.

    Raises:
        CheckpointError: if there is no checkpoint, or it is damaged.
    """
    reader = model_folder(path).checkpoint(step)
    steps = CheckpointManager(path).steps() if path.is_dir() else []
    lines = [f"steps      {', '.join(map(str, steps))}"] if steps else []
    names = [name for name in reader.names if name != GLOBAL_STEP]
    weights = [name for name in names if not is_slot(name)]
    slots = [name for name in names if is_slot(name)]
    at = f", step {reader.step}" if GLOBAL_STEP in reader else ""
    return "\n".join(
        [
            f"checkpoint {reader.prefix}{at}",
            *lines,
            *_section(reader, "parameters", weights),
            *_section(reader, "slots", slots),
            "",
        ]
    )


def _section(reader: Source, title: str, names: Sequence[str]) -> list[str]:
    """A headline with totals, and a line for each variable."""
    sizes = {name: math.prod(reader.shape(name)) for name in names}
    total = sum(size * reader.dtype(name).size for name, size in sizes.items())
    lines = [f"{title:<10} {sum(sizes.values()):,} in {len(names)} variables, {total:,} bytes"]
    for name, size in sizes.items():
        shape = ", ".join(map(str, reader.shape(name)))
        lines.append(f"{size:>16,}  {name} [{shape}] {reader.dtype(name).name}")
    return lines
