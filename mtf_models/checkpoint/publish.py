"""Files are written aside, in a folder inside the target folder, and then moved into place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mtf_models.checkpoint.names import STATE_FILE, files_of

_ASIDE = ".saving-checkpoint-"


@contextlib.contextmanager
def aside(folder: Path) -> Iterator[Path]:
    """A temporary folder inside `folder`, removed at the end whatever happens.

    It is locked meanwhile; a kill of the process ends the lock, by which `remove_dead` knows the
    remains.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=folder))
    lock = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield temporary
    finally:
        os.close(lock)
        shutil.rmtree(temporary, ignore_errors=True)


def remove_dead(folder: Path) -> None:
    """Removes the temporary folders of processes that were killed while saving."""
    for temporary in folder.glob(f"{_ASIDE}*"):
        lock = os.open(temporary, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # its process lives
        else:
            shutil.rmtree(temporary, ignore_errors=True)
        finally:
            os.close(lock)


def publish(temporary: Path, prefix: Path) -> None:
    """Moves a checkpoint into place: data first, then `.index`, then the folder's state file.

    Files that `prefix` has already, of a torn or replaced checkpoint, go out first. If a move
    fails, all are undone.

    Args:
        temporary: has the files of the checkpoint, and perhaps the state file.
        prefix: the final path of the checkpoint without endings.
    """
    index, *rest = files_of(temporary / prefix.name)
    replaced = temporary / "replaced"
    replaced.mkdir()
    moves = [(file, replaced / file.name) for file in files_of(prefix)]
    moves += [(file, prefix.parent / file.name) for file in rest]
    for file in [index, *rest]:
        _flush(file)
    with _moving(moves):
        _flush(prefix.parent)
        with _moving([(index, prefix.parent / index.name)]):
            _flush(prefix.parent)
    state = temporary / STATE_FILE
    if state.exists():
        _flush(state)
        os.replace(state, prefix.parent / STATE_FILE)
        _flush(prefix.parent)


@contextlib.contextmanager
def _moving(moves: list[tuple[Path, Path]]) -> Iterator[None]:
    """Moves files to paths that do not exist, and back if the moves or the block fail."""
    done = []
    try:
        for source, target in moves:
            done.append((source, target))
            os.replace(source, target)
        yield
    except BaseException:
        for source, target in reversed(done):
            with contextlib.suppress(FileNotFoundError):
                os.replace(target, source)
        raise


def _flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
