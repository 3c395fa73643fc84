"""Where files of vocabularies are looked for that are no longer where a config says."""

from __future__ import annotations

from pathlib import Path

COPIES = "vocabulary"
"""The subfolder of a run folder in which copies of its vocabularies lie."""

_folders: list[Path] = []


def look_in(run_folder: Path) -> None:
    """Lets files that are missing be taken from the copies in a run folder, from now on."""
    folder = run_folder / COPIES
    if folder.is_dir() and folder not in _folders:
        _folders.append(folder)


def place_of(path: str) -> str:
    """The path itself if there is a file, else that of a file of this name in those folders."""
    if Path(path).is_file():
        return path
    copies = (folder / Path(path).name for folder in reversed(_folders))
    return str(next((copy for copy in copies if copy.is_file()), path))
