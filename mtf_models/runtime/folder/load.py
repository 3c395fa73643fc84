"""Models from folders: of runs, ours and the original's, and of Hugging Face."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from mtf_models.checkpoint import (
    SLOTS,
    HuggingFaceReader,
    Reader,
    is_hugging_face_folder,
    locate,
    restore,
)
from mtf_models.checkpoint.locate import folder_of, readable
from mtf_models.config import Config
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Mesh
from mtf_models.runtime.folder.recorded_config import read_folder_config
from mtf_models.runtime.model.build import model_from_config
from mtf_models.runtime.model.config_of_architecture import config_of
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
    with readable(path):
        is_hugging_face = is_hugging_face_folder(Path(path))
    if is_hugging_face:
        _refuse_of_hugging_face(path, step=step, allow_partial=allow_partial or None)
        return _hugging_face_model(Path(path), Mesh() if mesh is None else mesh)
    folder = folder_of(path)
    config = read_folder_config(folder)
    if mesh is None:
        mesh = Mesh()
        recorded = Mesh(config.query("utils.run.mesh_shape") or "")
        if recorded.size > 1:
            _log.warning("%s records mesh %s; using one device.", folder, recorded)
    return restored_model(path, config, mesh, step, allow_partial=allow_partial)[0]


def restored_model(
    path: str | Path,
    config: Config,
    mesh: Mesh,
    step: int | None = None,
    strict: bool = False,
    allow_partial: bool = False,
) -> tuple[Model, int]:
    """The model of a config with the values of a checkpoint.

    Args:
        path: a folder with checkpoints, or one of them.
        config: of the model.
        mesh: where it runs.
        step: which checkpoint of the folder; None for the latest.
        strict: see `build_model`.
        allow_partial: see `load_model`.

    Returns:
        The model and the step of its checkpoint.

    Raises:
        CheckpointError: if there is no such checkpoint, or it does not fit the config.
    """
    prefix = locate(path, step)
    reader = Reader(prefix)
    seed = config.query("utils.run.seed", 0)
    model = model_from_config(config, mesh, seed, strict, reader=reader)
    restore(prefix, model.variables, allow_left_over=SLOTS, allow_partial=allow_partial)
    return model, reader.step


def _refuse_of_hugging_face(folder: str | Path, **given: Any) -> None:
    """Refuses arguments that are for checkpoints of ours; None is not given."""
    found = [f"{name}={value}" for name, value in given.items() if value is not None]
    if found:
        raise CheckpointError(
            f"{folder} is a Hugging Face folder, which holds one whole model and no steps; leave "
            f"out {' and '.join(found)}."
        )


def _hugging_face_model(folder: Path, mesh: Mesh) -> Model:
    reader = HuggingFaceReader(folder)
    config = config_of(reader.architecture, reader.weights_dtype)
    model = model_from_config(config, mesh, reader=reader)
    restore(reader, model.variables)
    return model
