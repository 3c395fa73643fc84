"""Which converter `mtf convert` runs."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

from mtf_models.checkpoint import is_hugging_face_folder
from mtf_models.errors import ConfigError, did_you_mean
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
