"""The trained model of a run folder as a SavedModel."""

from __future__ import annotations

from mtf_models.data.encoding import encoding_of
from mtf_models.errors import ConfigError
from mtf_models.mesh import Mesh
from mtf_models.runtime.model.decode_request import length_of
from mtf_models.runtime.options import ExportOptions
from mtf_models.runtime.using.asked import DECODING
from mtf_models.runtime.using.records import task_of
from mtf_models.runtime.using.saved_model import Export, default_of, plans_of, write
from mtf_models.runtime.using.trained import load_for_use
from mtf_models.runtime.whole_file import check_new_folder


def run(options: ExportOptions) -> None:
    """Writes the model, whatever mesh it was trained on, for one device.

    Raises:
        MtfError: if the folder cannot be used, or the output not written.
    """
    idle = [f"--{name}" for name in ("mesh", "layout", "strict") if getattr(options, name)]
    if idle:
        raise ConfigError(
            f"What is exported is for one device, whatever mesh the model was trained on: leave "
            f"out {' and '.join(idle)}."
        )
    check_new_folder(options.output)
    model, step = load_for_use(options, Mesh.unplaced())
    with model.config.active():
        task = task_of(model, options)
        asked = {name: getattr(options, name) for name in DECODING}
        longest = options.max_decode_length
        export = Export(
            model,
            {name: encoding_of(task, name) for name in ("inputs", "targets")},
            plans_of(model, asked, lambda ways: length_of(model, longest, ways)),
            default_of(model),
            f"step {step} of {options.model_dir}",
            options.batch_size,
        )
    write(export, options.output)
