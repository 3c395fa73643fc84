"""Registers everything that gin files may name."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from mtf_models import layers, optimize, transformer


@functools.cache
def register() -> None:
    """Imports every module whose decorators may do it; again does nothing."""
    import mtf_models.runtime.bindings.comparison
    import mtf_models.runtime.bindings.decoding
    import mtf_models.runtime.bindings.initial_names
    import mtf_models.runtime.bindings.settings
    import mtf_models.runtime.bindings.tasks
    import mtf_models.runtime.bindings.text_task
    import mtf_models.runtime.bindings.variable_filter  # noqa: F401

    for package in (layers, optimize, transformer):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
