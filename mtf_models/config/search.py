"""Finding gin files: as given, below our folder, in the installed t5 and Mesh TensorFlow."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mtf_models.config.nearest import nearest
from mtf_models.errors import ConfigError
from mtf_models.gin_files import folder as our_folder

DEFAULTS = "defaults/t5.gin"
"""What is parsed before anything else, below our folder of gin files."""

_FORMER_FOLDER = "mesh_tensorflow/transformer/gin/"
"""Where old command lines look for files; those of layouts once stood there directly."""


class GinFile(NamedTuple):
    """A gin file that was found.

    Attributes:
        path: where it is; for a remote one its address.
        text: what it holds.
        root: the folder that the name it was asked for is relative to.
    """

    path: str
    text: str
    root: str


def t5_folder() -> str | None:
    """The folder of the installed t5 package's gin files; t5 itself is not imported."""
    spec = importlib.util.find_spec("t5")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return str(Path(folders[0], "models", "gin")) if folders else None


def mesh_tensorflow_folder() -> str | None:
    """The folder of Mesh TensorFlow's gin files, if it is installed; it is not imported."""
    spec = importlib.util.find_spec("mesh_tensorflow")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return str(Path(folders[0], "transformer", "gin")) if folders else None


def find(name: str, folders: Sequence[str] = (), including: GinFile | None = None) -> GinFile:
    """Finds and reads a gin file.

    Args:
        name: a path; absolute, remote (`gs://...`), or relative to one of the folders searched.
        folders: where to look after the working directory and before our own folder.
        including: the file with the `include`, whose root is searched first (a file of the t5
            package means its neighbour there, not ours of the same name) and whose own folder last.

    Returns:
        The file with its text.

    Raises:
        ConfigError: if it is nowhere, or cannot be read; the message names every place searched.
    """
    if "://" in name:
        return GinFile(name, _read_remote(name), name.rpartition("/")[0])
    packages = [str(our_folder()), *filter(None, (t5_folder(), mesh_tensorflow_folder()))]
    roots = ["", *folders, *packages]
    if including:
        roots = [including.root, *roots, str(Path(including.path).parent)]
    names = [name]
    if name.startswith(_FORMER_FOLDER):
        rest = name.removeprefix(_FORMER_FOLDER)
        names += [rest, f"layouts/{rest}"]
    for candidate in names:
        for root in roots:
            path = Path(root, candidate)
            if path.is_file():
                # A file of a package is one of it whatever way it was named.
                above = [r for r in packages if path.absolute().is_relative_to(r)]
                return GinFile(str(path), _read(path), above[0] if above else root)
    # An absolute name is one place, whatever it is joined to.
    places = list(dict.fromkeys(Path(root, name).absolute() for root in roots))
    searched = "".join(f"\n  {place}" for place in places)
    neighbours = {str(path) for place in places for path in place.parent.glob("*.gin")}
    near = nearest(name, {*_below(roots), *neighbours}) or "."
    raise ConfigError(
        f"There is no gin file {name!r}. Searched:{searched}\nGive a path that exists{near}"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The gin file {path} cannot be read: {error}. It must be a readable text in UTF-8."
        ) from error


def _read_remote(address: str) -> str:
    # TensorFlow's file system is what reads buckets; it is slow to import, so only when needed.
    tensorflow = importlib.import_module("tensorflow")
    try:
        return tensorflow.io.gfile.GFile(address).read()
    except (tensorflow.errors.OpError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The gin file {address} cannot be read: {error}. Copy it here and give its path."
        ) from error


def _below(roots: Sequence[str]) -> Iterator[str]:
    """The names of files below the folders that are searched, the working directory left out."""
    for root in roots:
        if root:
            yield from (str(path.relative_to(root)) for path in Path(root).rglob("*.gin"))
