"""Registers everything that gin files may name."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from mtf_models import layers, optimize, transformer


@functools.cache
def register() -> None:
    """Imports every module whose decorators may do it; again does nothing."""
    import mtf_models.runtime.decode_settings
    import mtf_models.runtime.initial_names
    import mtf_models.runtime.modes.infer
    import mtf_models.runtime.modes.score
    import mtf_models.runtime.settings
    import mtf_models.runtime.tasks
    import mtf_models.runtime.variable_filter  # noqa: F401

    for package in (layers, optimize, transformer):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
