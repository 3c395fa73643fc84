"""What a command on examples asks for, in a form that equals itself in another run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_models.runtime.folder.model_folder import model_folder
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import ExampleOptions

if TYPE_CHECKING:
    from mtf_models.data.records import Record

# Batches, meshes and places change no result.
_NO_MATTER = ("run.batch_size", "run.mesh_shape", "run.mesh_devices", "run.layout_rules")


def request_of(
    options: ExampleOptions,
    model: Model,
    step: int,
    asked: Mapping[str, Any],
    records: Sequence[Record],
) -> str:
    """All that a result depends on: the config, the checkpoint, the examples and what is asked.

    Args:
        options: of the command.
        model: its config counts, without what changes no result.
        step: of the checkpoint.
        asked: what is asked for besides, as JSON can hold it.
        records: the examples.
    """
    digest = hashlib.sha256()
    config = model.config
    for key in sorted(config.bindings, key=str):
        if not str(key).endswith(_NO_MATTER):
            digest.update(f"{key} = {config.effective(key)!r}\n".encode())
    for record in records:
        ids = {name: x.tolist() for name, x in record.ids.items()}
        digest.update(json.dumps([*record.texts.items(), ids]).encode())
    loaded = {name: getattr(options, name) for name in ("module_import", "allow_partial")}
    # Another model may have taken the place of one under the same name and step.
    for file in model_folder(options.model_dir).value_files(options.step):
        found = file.stat()
        digest.update(json.dumps([file.name, found.st_size, found.st_mtime_ns]).encode())
    folder = str(Path(options.model_dir).absolute())
    return json.dumps([folder, step, loaded, asked, digest.hexdigest()], sort_keys=True)
