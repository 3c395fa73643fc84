"""Which converter `mtf convert` runs."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mtf_models.checkpoint import is_hugging_face_folder
from mtf_models.errors import CheckpointError, ConfigError, did_you_mean
from mtf_models.runtime.options import ConvertOptions

FORMATS = ("mesh_tf", "hugging_face")
"""What can be read and written: run folders and checkpoints, by Mesh TensorFlow's names; folders
with config.json and safetensors."""

_SHORT = {"mtf": "mesh_tf"}
_CONVERTERS = {
    ("mesh_tf", "mesh_tf"): "mtf_models.runtime.conversion.checkpoints",
    ("mesh_tf", "hugging_face"): "mtf_models.runtime.conversion.hugging_face",
    ("hugging_face", "mesh_tf"): "mtf_models.runtime.conversion.hugging_face",
}
"""From format, to format -> the module whose `run(options)` does it."""


def run(options: ConvertOptions) -> None:
    """Writes what the sources come to.

    Raises:
        MtfError: if a format is unknown, the sources do not fit, or the output cannot be written.
    """
    options = dataclasses.replace(options, to=_SHORT.get(options.to, options.to))
    if options.to not in FORMATS:
        raise ConfigError(f"--to={options.to} is no format{did_you_mean(options.to, FORMATS)}")
    pair = (source_format(options), options.to)
    if pair not in _CONVERTERS:
        raise ConfigError(f"There is no conversion from {pair[0]} to {pair[1]}.")
    importlib.import_module(_CONVERTERS[pair]).run(options)


def source_format(options: ConvertOptions) -> str:
    """The format of the sources, which must be one.

    Raises:
        ConfigError: if they are of several.
    """
    found = {
        source: "hugging_face" if is_hugging_face_folder(Path(source)) else "mesh_tf"
        for source in options.source
    }
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{source} is {kind}" for source, kind in found.items())
        raise ConfigError(f"The sources are of several formats: {listed}. Convert them one by one.")
    return next(iter(found.values()))


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A folder that is written aside and takes its place when the block ends well.

    Args:
        path: where it goes; nothing is there, or an empty folder.

    Raises:
        ConfigError: if anything is there.
        CheckpointError: if it cannot be written; nothing is left of it then.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"--output={path} is not empty, and stays as it is: give a new folder.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            yield aside
            aside.chmod(0o777 & ~_umask())
            aside.replace(path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be written: {error.strerror or error}. Make room, or give another "
            "--output."
        ) from error


def _umask() -> int:
    """The process's mask for new files, which temporary folders do not heed."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
