"""Which checkpoint is meant by a path: a folder, a checkpoint's prefix, or one of its files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from mtf_models.checkpoint.manager import CheckpointManager
from mtf_models.checkpoint.names import PICKLES, index_of, step_of
from mtf_models.checkpoint.reader import find_faults
from mtf_models.errors import CheckpointError

_ENDING = re.compile(r"\.(index|meta|extra\.json|data-\d{5}-of-\d{5})$")


def locate(path: str | Path, step: int | None = None) -> Path:
    """The complete checkpoint that is meant.

    Args:
        path: a folder, of whose checkpoints the latest is taken unless a step is asked for; or the
            prefix of a checkpoint, such as "runs/a/model.ckpt-1000", or one of its files.
        step: which checkpoint of the folder.

    Returns:
        The path of the checkpoint without endings.

    Raises:
        CheckpointError: if there is none, it is torn, or the path is of a file that is none; a file
            of pickled objects is refused by name and never opened.
    """
    path = Path(path)
    with readable(path):
        if path.is_dir():
            manager = CheckpointManager(path)
            return manager.prefix(manager.chosen(step))
    prefix = prefix_in(path)
    if prefix is None:
        raise CheckpointError(_no_checkpoint(path))
    if step is not None and step_of(prefix.name) != step:
        raise CheckpointError(
            f"{path} is one checkpoint, and step {step} is asked for: give the folder "
            f"{prefix.parent}, or leave the step out."
        )
    faults = find_faults(prefix)
    if faults:
        raise CheckpointError(f"Checkpoint {prefix} is torn: {'; '.join(faults)}. {_MEND}")
    return prefix


def folder_of(path: str | Path) -> Path:
    """The folder of a checkpoint; a path that is of none stays as it is.

    Raises:
        CheckpointError: if it is a file of pickled objects, by its name.
    """
    path = Path(path)
    prefix = prefix_in(path)
    if prefix is None and path.suffix in PICKLES and not path.is_dir():
        raise CheckpointError(_no_checkpoint(path))
    return path if prefix is None else prefix.parent


def prefix_in(path: Path) -> Path | None:
    """The prefix that a path is of, with or without one of the endings; None for other paths.

    Raises:
        CheckpointError: if that cannot be told, for want of permissions.
    """
    prefix = path.with_name(_ENDING.sub("", path.name)) if path.name else path
    named = prefix != path or step_of(path.name) is not None
    with readable(path):
        return prefix if not path.is_dir() and (named or index_of(prefix).is_file()) else None


_MEND = "Take another checkpoint, or copy this one again from where it came from."


def _no_checkpoint(path: Path) -> str:
    if path.suffix in PICKLES:
        return (
            f"{path} is a file of pickled objects by its name, which can run any code when it is "
            "opened, so it is never read. Give safetensors (save_pretrained writes them), or a "
            "TensorFlow checkpoint."
        )
    if path.exists():
        return (
            f"{path} is no checkpoint: give a folder, or a path without the ending, such as "
            "runs/a/model.ckpt-1000."
        )
    return (
        f"There is no checkpoint {path}: neither a folder nor {index_of(path).name} is there. Give "
        "a folder, or a path without the ending, such as runs/a/model.ckpt-1000."
    )


@contextlib.contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Around what looks at a path: the system's refusals become ours.

    Raises:
        CheckpointError: if the block is refused the path.
    """
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}. Mend its permissions, or give another path."
        ) from error
