"""The names of checkpoint files, and the names inside that are not a model's."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

GLOBAL_STEP = "global_step"
"""The variable, an int64 scalar, that holds the number of steps taken."""

STATE_FILE = "checkpoint"
"""The text file of a folder that names its latest checkpoint."""

EXTRA_SUFFIX = ".extra.json"
"""Ends the name of the file that holds what is saved beside the variables."""

SLOTS = (
    "*_slot_v",
    "*_slot_vr",
    "*_slot_vc",
    "*_slot_m",
    "*/adam_m",
    "*/adam_v",
    "*_momentum_v",
)
"""Patterns of the names of optimizer slots, for those who restore weights only."""


PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt")
"""Ends of the names of files that run code when they are read, and so are never."""


def is_slot(name: str) -> bool:
    """Whether a variable is an optimizer's, by its name."""
    return any(fnmatchcase(name, pattern) for pattern in SLOTS)


_FILE = re.compile(
    r"(?P<prefix>.+)\.(?:index|meta|extra\.json|data-(?P<shard>\d{5})-of-(?P<shards>\d{5}))"
)
_STEP = re.compile(r"model\.ckpt-(\d+)")


def prefix_of(folder: Path, step: int) -> Path:
    """The path that all files of the checkpoint of `step` start with."""
    return folder / f"model.ckpt-{step}"


def step_of(prefix_name: str) -> int | None:
    """The step in a name such as "model.ckpt-1000", or None."""
    found = _STEP.fullmatch(prefix_name)
    return int(found.group(1)) if found else None


def index_of(prefix: Path) -> Path:
    """The file that makes a checkpoint complete."""
    return prefix.with_name(f"{prefix.name}.index")


def files_of(prefix: Path) -> list[Path]:
    """The files of one checkpoint that exist, `.index` first."""
    found = [f for f in _files(prefix.parent) if _FILE.fullmatch(f.name)["prefix"] == prefix.name]
    return sorted(found, key=lambda f: (f.suffix != ".index", f.name))


def data_files_of(prefix: Path) -> dict[int, dict[int, Path]]:
    """The data files of one checkpoint: number of shards -> shard -> file."""
    shards: dict[int, dict[int, Path]] = {}
    for file in files_of(prefix):
        found = _FILE.fullmatch(file.name)
        if found["shards"]:
            shards.setdefault(int(found["shards"]), {})[int(found["shard"])] = file
    return shards


def steps_in(folder: Path) -> list[int]:
    """The steps of which a folder has an index or data, complete or not, in order."""
    kept = (f for f in _files(folder) if f.suffix not in {".meta", ".json"})
    steps = {step_of(_FILE.fullmatch(f.name)["prefix"]) for f in kept}
    return sorted(step for step in steps if step is not None)


def pickles_in(folder: Path) -> list[str]:
    """The names of a folder's files of pickled objects, in order."""
    return (
        sorted(f.name for f in folder.iterdir() if f.name.endswith(PICKLES))
        if folder.is_dir()
        else []
    )


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [f for f in folder.iterdir() if _FILE.fullmatch(f.name)]
