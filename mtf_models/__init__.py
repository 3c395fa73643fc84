"""Mesh TensorFlow for TensorFlow 2, with its transformer zoo.

`import mtf_models as mtf` gives the language of named dimensions (`mtf.Mesh`, `mtf.einsum`, ...)
and the model calls (`mtf.build_model`, `mtf.load_model`, `mtf.Trainer`). TensorFlow is loaded when
the first of them is used.
"""

import importlib
import importlib.util
from typing import Any

from mtf_models.machine import ask_for_onednn

_HOMES = {
    "MtfError": "mtf_models.errors",
    "Model": "mtf_models.runtime.model.model",
    "MtfModel": "mtf_models.runtime.original.mtf_model",
    "Trainer": "mtf_models.runtime.training.trainer",
    "build_model": "mtf_models.runtime.model.build",
    "load_model": "mtf_models.runtime.folder.load",
    "record": "mtf_models.mesh.recording.record",
    "record_step": "mtf_models.runtime.training.record_step",
    "serialize_training_step": "mtf_models.optimize.training_step",
}
_LANGUAGE = "mtf_models.mesh"

__version__ = "0.1.0"

ask_for_onednn()


def __getattr__(name: str) -> Any:
    """Loads a public name where it is defined, at its first use."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name not in _HOMES and importlib.util.find_spec(f"{__name__}.{name}"):
        return importlib.import_module(f"{__name__}.{name}")
    module = importlib.import_module(_HOMES.get(name, _LANGUAGE))
    try:
        return getattr(module, name)
    except AttributeError:
        raise AttributeError(f"module 'mtf_models' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted([*_HOMES, *importlib.import_module(_LANGUAGE).__all__, "__version__"])
