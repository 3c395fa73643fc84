"""Modes `export_infer` and `export_score`, and `MtfModel.export`: a SavedModel in a new folder."""

from __future__ import annotations

import time
from pathlib import Path

from mtf_models.config import Config
from mtf_models.data.encoding import Encoding
from mtf_models.decode.options import EOS
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh
from mtf_models.runtime.folder.checkpoint_steps import CheckpointSteps, steps_of
from mtf_models.runtime.original.used_model import UsedModel
from mtf_models.runtime.using.saved_model import SCORE, Export, default_of, plans_of, write

MODES = ("export", "export_infer", "export_score")
"""The first is an old name of the second."""


def export_model(
    folder: Path, config: Config, step: CheckpointSteps, path: str | None, by_score: bool = False
) -> Path:
    """Writes the model below a path, in a folder that is named by the time, as the original does.

    Args:
        folder: the run folder.
        config: of the model; says how the default signature decodes.
        step: of the checkpoint; None or -1 for the latest.
        path: the folder to write into; None for `export` below the run folder.
        by_score: whether the default signature scores targets.

    Returns:
        The folder of the SavedModel.

    Raises:
        MtfError: if there is no such checkpoint, or it cannot be written.
    """
    wanted, *others = steps_of(folder, step)
    if others:
        raise ConfigError(
            f"run.export_checkpoint_step is {step!r}, and a SavedModel is of one checkpoint: name "
            "one, or -1 for the latest."
        )
    used = UsedModel(folder, config, Mesh.unplaced()).at(wanted)
    with config.active():
        ends = {"inputs": () if used.reads_prompts else (EOS,), "targets": (EOS,)}
        encodings = {n: Encoding(getattr(used.vocabularies, n), end) for n, end in ends.items()}
        source = f"step {wanted} of {folder}"
        default = SCORE if by_score else default_of(used.model)
        export = Export(used.model, encodings, plans_of(used.model, {}), default, source)
    target = Path(path or folder / "export", str(int(time.time())))
    write(export, target)
    return target
