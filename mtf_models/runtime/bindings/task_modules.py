"""The modules that a config imports, where they are needed for its tasks."""

from __future__ import annotations

import importlib
import logging

from mtf_models.config import Config
from mtf_models.runtime.bindings.text_task import register_text_task

_log = logging.getLogger("mtf_models")

_TASK_FUNCTIONS = ("get_vocabulary", "mesh_train_dataset_fn", "mesh_eval_dataset_fn")


def import_tasks(config: Config) -> None:
    """Registers the task that the config describes, and imports what it asks for.

    The latter only if it names a task that is not there without: a module of an old config may
    not exist any more, or need what does not.
    """
    register_text_task(config)
    named = {query_task(config, function) for function in _TASK_FUNCTIONS} - {None}
    if not named or named <= _known():
        return
    for module in config.imports:
        try:
            importlib.import_module(module)
        except ImportError as error:
            _log.info("The config imports %s, which cannot be imported: %s.", module, error)


def _known() -> set[str]:
    # It imports slowly, and a config of a model alone names no task.
    from mtf_models.data.tasks import names

    return names()


def query_task(config: Config, function: str) -> str | None:
    """The task or mixture that a function of `mesh_transformer` is bound to, or None."""
    return config.query(f"mesh_transformer.{function}.mixture_or_task_name")


def task_bindings(task: str) -> str:
    """Gin text that makes a config train and evaluate a task or mixture, with its vocabulary."""
    lines = [f"MIXTURE_NAME = {task!r}", "run.vocabulary = @mesh_transformer.get_vocabulary()"]
    for kind in ("train", "eval"):
        function = f"mesh_{kind}_dataset_fn"
        lines.append(f"run.{kind}_dataset_fn = @mesh_transformer.{function}")
    names = (f"mesh_transformer.{function}" for function in _TASK_FUNCTIONS)
    lines += [f"{name}.mixture_or_task_name = %MIXTURE_NAME" for name in names]
    return "\n".join(lines)
