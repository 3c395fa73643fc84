"""The trained model of a run folder, for commands that use it."""

from __future__ import annotations

from pathlib import Path

from mtf_models.checkpoint import SLOTS, CheckpointManager, Reader
from mtf_models.mesh import Mesh
from mtf_models.runtime import prepare
from mtf_models.runtime.build import checked_step, model_from_config, require_run_folder
from mtf_models.runtime.model import Model
from mtf_models.runtime.options import ModelOptions


def load_for_use(options: ModelOptions) -> tuple[Model, int]:
    """Loads the model of `options.model_dir`.

    It runs on the mesh that is asked for, else on one device.

    Args:
        options: of the command; `step` says which checkpoint.

    Returns:
        The model and the step of its checkpoint.
    """
    folder = Path(options.model_dir)
    require_run_folder(folder)
    prepare.register(options)
    config = prepare.read_recorded_config(folder, options)
    manager = CheckpointManager(folder)
    step = checked_step(manager, getattr(options, "step", None))
    settings = prepare.settings_of(config)
    mesh = Mesh()
    if options.mesh is not None:
        mesh = prepare.mesh_of(settings)
    reader = Reader(manager.prefix(step))
    model = model_from_config(
        config, mesh, settings.seed, options.pad_vocab, options.strict, reader
    )
    manager.restore(step, model.variables, allow_left_over=SLOTS)
    return model, step
