"""The variables of a checkpoint, or of a config that nobody has allocated."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from mtf_models.checkpoint import SLOTS, CheckpointManager, Reader
from mtf_models.checkpoint.names import GLOBAL_STEP
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh
from mtf_models.runtime import prepare
from mtf_models.runtime.build import model_from_config
from mtf_models.runtime.options import InspectOptions
from mtf_models.runtime.run_folder import checked_step, variables_text

_ENDING = re.compile(r"\.(index|meta|extra\.json|data-\d{5}-of-\d{5})$")


def run(options: InspectOptions) -> None:
    """Prints the variables of a folder, a checkpoint or a config.

    Raises:
        MtfError: if not exactly one of path and gin files is given, or it cannot be read.
    """
    if options.path is None:
        if not options.gin_file:
            raise ConfigError("Give a run folder, the prefix of a checkpoint, or --gin_file.")
        print(config_text(options), end="")
    elif options != InspectOptions(path=options.path):
        raise ConfigError(
            "A path alone, or --gin_file with what changes the config: a checkpoint holds what it "
            "holds, whatever mesh, layout or binding."
        )
    else:
        print(checkpoint_text(Path(options.path)), end="")


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


def checkpoint_text(path: Path) -> str:
    """The variables and slots of a checkpoint: names, shapes and dtypes.

    Args:
        path: a folder, of whose checkpoints the latest is read, or the prefix of a checkpoint.

    Raises:
        CheckpointError: if there is no checkpoint, or it is damaged.
    """
    lines = []
    if path.is_dir():
        manager = CheckpointManager(path)
        steps = manager.steps()
        path = manager.prefix(checked_step(manager, None))
        lines.append(f"steps      {', '.join(map(str, steps))}")
    reader = Reader(_ENDING.sub("", str(path)))
    names = [name for name in reader.names if name != GLOBAL_STEP]
    weights = [name for name in names if not _is_slot(name)]
    slots = [name for name in names if _is_slot(name)]
    step = f", step {int(reader.read(GLOBAL_STEP))}" if GLOBAL_STEP in reader.names else ""
    return "\n".join(
        [
            f"checkpoint {reader.prefix}{step}",
            *lines,
            *_section(reader, "parameters", weights),
            *_section(reader, "slots", slots),
            "",
        ]
    )


def _is_slot(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in SLOTS)


def _section(reader: Reader, title: str, names: Sequence[str]) -> list[str]:
    """A headline with totals, and a line for each variable."""
    sizes = {name: math.prod(reader.shape(name)) for name in names}
    total = sum(size * reader.dtype(name).size for name, size in sizes.items())
    lines = [f"{title:<10} {sum(sizes.values()):,} in {len(names)} variables, {total:,} bytes"]
    for name, size in sizes.items():
        shape = ", ".join(map(str, reader.shape(name)))
        lines.append(f"{size:>16,}  {name} [{shape}] {reader.dtype(name).name}")
    return lines
