"""The text file `checkpoint` of a folder, in TensorFlow's format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import tensorflow as tf

from mtf_models.checkpoint.names import prefix_of, step_of


def state_text(step: int, steps: Iterable[int]) -> str:
    """What the file says when `step` is the latest of `steps`."""
    lines = [f'model_checkpoint_path: "{prefix_of(Path(), step)}"']
    lines += [f'all_model_checkpoint_paths: "{prefix_of(Path(), s)}"' for s in steps]
    return "\n".join(lines) + "\n"


def named_step(folder: Path) -> int | None:
    """The step that the file names as the latest; None without a file or a readable name.

    The recorded path may be of the machine that wrote it; only its last part counts.
    """
    try:
        state = tf.train.get_checkpoint_state(str(folder))
    except ValueError:  # TensorFlow sees to what else it cannot read.
        return None
    return step_of(Path(state.model_checkpoint_path).name) if state else None
