"""Files and folders that are written whole: what was there stays until all of the new is."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mtf_models.errors import CheckpointError, ConfigError, DataError, MtfError


@contextlib.contextmanager
def writing(
    path: Path, error: type[MtfError] = DataError, cure: str = "Give another path."
) -> Iterator[None]:
    """Around writing to a path: failures of the system become one of ours.

    Args:
        path: what the message names.
        error: its class.
        cure: its end, what to do.
    """
    try:
        yield
    except OSError as failure:
        reason = failure.strerror or failure
        raise error(f"{path} cannot be written: {reason}. {cure}") from failure


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A path to write to, beside another one whose place it takes at the end of the block.

    Where the block fails, nothing is left of it.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(
    path: Path, text: str, error: type[MtfError] = DataError, cure: str = "Give another path."
) -> None:
    """Writes a text.

    Args:
        path: of the file, in a folder that there is.
        text: all that it will hold.
        error: what is raised if that cannot be done; what was there stays.
        cure: what its message says to do.
    """
    with writing(path, error, cure), aside(path) as beside:
        beside.write_text(text, encoding="utf-8")


def check_output(output: str | Path, flag: str = "--output") -> None:
    """Refuses a path that no new file can be written to.

    Args:
        output: the path.
        flag: what it was given by.

    Raises:
        DataError: if it is a folder or a file that is there, in no folder, or in one that takes no
            file.
    """
    output = Path(output)
    if output.is_dir():
        raise DataError(f"{flag}={output} is a folder: give the path of a file in it.")
    if output.exists():
        raise DataError(
            f"{flag}={output} is there already, and stays as it is: delete it, or give another "
            "path."
        )
    if not output.absolute().parent.is_dir():
        raise DataError(f"There is no folder for {flag}={output}: make it, or give another path.")
    check_takes_files(output.parent, cure=f"Give another {flag}.")


def check_takes_files(folder: Path, cure: str = "Give another path.") -> None:
    """Refuses a folder in which no file can be made, or that cannot be made.

    Args:
        folder: that there is, or will be.
        cure: what the message says to do.

    Raises:
        DataError: if it, or the folder that it would be made in, takes no file.
    """
    with writing(folder, cure=cure):
        there = next(f for f in (folder.absolute(), *folder.absolute().parents) if f.exists())
        tempfile.TemporaryFile(dir=there).close()


def check_new_folder(path: str | Path, flag: str = "--output") -> None:
    """Refuses a folder that has anything in it.

    Args:
        path: of the folder.
        flag: what it was given by.

    Raises:
        ConfigError: if anything is there.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{flag}={path} is not empty, and stays as it is: give a new folder.")


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A folder that is written aside and takes its place when the block ends well.

    Args:
        path: where it goes; nothing is there, or an empty folder.

    Raises:
        ConfigError: if anything is there.
        CheckpointError: if it cannot be written; nothing is left of it then.
    """
    check_new_folder(path)
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            yield aside
            aside.chmod(0o777 & ~_umask())
            aside.replace(path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be written: {error.strerror or error}. Make room, or give another "
            "--output."
        ) from error


def _umask() -> int:
    """The process's mask for new files, which temporary folders do not heed."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
