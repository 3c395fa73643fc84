"""The trained model of a folder, for commands that use it."""

from __future__ import annotations

from mtf_models import config as gin_config
from mtf_models.mesh import Mesh
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.folder.load import restored_model
from mtf_models.runtime.folder.model_folder import model_folder
from mtf_models.runtime.folder.recorded_mesh import mesh_for
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import EvalOptions, ExampleOptions, ExportOptions, ServeOptions


def load_for_use(
    options: EvalOptions | ExampleOptions | ExportOptions | ServeOptions, mesh: Mesh | None = None
) -> tuple[Model, int]:
    """Loads the model of `options.model_dir`.

    It runs on the mesh that is asked for, else on the recorded one, or what fits of it.

    Args:
        options: of the command; `step` says which checkpoint.
        mesh: where it runs instead.

    Returns:
        The model and the step of its checkpoint.

    Raises:
        MtfError: if there is no such folder or checkpoint, or they do not fit each other.
    """
    folder = model_folder(options.model_dir)
    prepare.register(options)
    config = prepare.read_recorded_config(folder.gin, options)
    if mesh is None:
        recorded = gin_config.parse([folder.gin])
        mesh = mesh_for(config, recorded, as_asked=options.mesh is not None)
    source = folder.checkpoint(options.step, options.allow_partial)
    return restored_model(source, config, mesh, options.strict, options.allow_partial)
