"""Models from folders: of runs, ours and the original's, and of Hugging Face."""

from __future__ import annotations

import logging
from pathlib import Path

from mtf_models import config as gin_config
from mtf_models.checkpoint import SLOTS, restore
from mtf_models.checkpoint.source import Source
from mtf_models.config import Config
from mtf_models.mesh import Mesh
from mtf_models.runtime.folder.model_folder import model_folder
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.registry import register

_log = logging.getLogger("mtf_models")


def load_model(
    path: str | Path,
    mesh: Mesh | None = None,
    step: int | None = None,
    allow_partial: bool = False,
) -> Model:
    """The model of a run folder, ours or the original's, or of a Hugging Face folder.

    Args:
        path: a folder with `operative_config.gin` and `model.ckpt-N`, or a checkpoint in one, such
            as "runs/a/model.ckpt-1000"; or a folder with `config.json` and safetensors.
        mesh: where it runs; None for one device, whatever mesh is recorded.
        step: which checkpoint of the folder; None for the latest.
        allow_partial: whether variables may be in the model or in the checkpoint only. They are
            listed then; those of the model keep their initial values.

    Raises:
        CheckpointError: if there is no config or checkpoint, or they do not fit each other.
    """
    register()
    folder = model_folder(path)
    config = gin_config.parse([folder.gin])
    if mesh is None:
        mesh = Mesh()
        recorded = Mesh(config.query("utils.run.mesh_shape") or "")
        if recorded.size > 1:
            _log.warning("%s records mesh %s; using one device.", folder.path, recorded)
    source = folder.checkpoint(step, allow_partial)
    return restored_model(source, config, mesh, allow_partial=allow_partial)[0]


def restored_model(
    source: Source,
    config: Config,
    mesh: Mesh,
    strict: bool = False,
    allow_partial: bool = False,
) -> tuple[Model, int]:
    """The model of a config with the values of a checkpoint.

    Args:
        source: the checkpoint.
        config: of the model.
        mesh: where it runs.
        strict: see `build_model`.
        allow_partial: see `load_model`.

    Returns:
        The model and the step of its checkpoint.

    Raises:
        CheckpointError: if it does not fit the config.
    """
    seed = config.query("utils.run.seed", 0)
    model = model_from_config(config, mesh, seed, strict, reader=source)
    restore(source, model.variables, allow_left_over=SLOTS, allow_partial=allow_partial)
    return model, source.step
