"""What is installed: versions, and whether the files are those of the releases."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import platform
import shlex
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PACKAGE = "mtf_models"
LIBRARIES = (
    PACKAGE,
    "tensorflow",
    "tensorflow-text",
    "tensorflow-datasets",
    "seqio",
    "t5",
    "gin-config",
    "sentencepiece",
    "tensorboard",
    "numpy",
)
OVERLAPPED = ("tensorflow-datasets", "seqio")
"""Releases into whose folders the nightly builds that t5 asks for are installed too."""


def versions() -> dict[str, str | None]:
    """The versions of Python and of what matters most here; None where it is not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}}


def unmet_requirements(package: str = PACKAGE) -> list[str]:
    """What a package asks for and does not find, a sentence for each.

    Args:
        package: the name of a distribution.
    """
    try:
        lines = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return [f"{package} is not installed: run `pip install -e .` in its checkout."]
    requirements = [Requirement(line) for line in lines]
    faults = [
        _unmet(requirement)
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]
    return [f"{package} needs {fault}." for fault in faults if fault]


def changed_files(distribution: metadata.Distribution) -> list[str]:
    """The files of a distribution that differ from its RECORD.

    Args:
        distribution: an installed distribution.

    Returns:
        Their paths as in the RECORD, each with what is wrong.
    """
    if distribution.files is None:
        return ["RECORD (missing)"]
    faults = []
    for file in distribution.files:
        path = Path(file.locate())
        if file.hash is None:
            continue
        if not path.is_file():
            faults.append(f"{file} (missing)")
        elif _digest(path, file.hash.mode) != file.hash.value:
            faults.append(f"{file} (not the release's)")
    return faults


def mending_command(distributions: Sequence[str]) -> str:
    """The command that lays the files of releases over whatever is there.

    Args:
        distributions: their names; those that are installed keep their versions.
    """
    found = {name: _version(name) for name in distributions}
    wanted = [f"{name}=={version}" if version else name for name, version in found.items()]
    pip = [sys.executable, "-m", "pip", "install", "--force-reinstall", "--no-deps"]
    return shlex.join([*pip, *wanted])


def gin_origin() -> str | None:
    """Where `import gin` leads if not to gin-config; None if all is well."""
    spec = importlib.util.find_spec("gin")
    if spec is None:
        return "nothing"
    found = Path(spec.origin) if spec.origin else Path(list(spec.submodule_search_locations)[0])
    try:
        released = metadata.distribution("gin-config").locate_file("gin/__init__.py")
    except metadata.PackageNotFoundError:
        return str(found)
    return None if found.resolve() == Path(released).resolve() else str(found)


def t5_gin_folder() -> Path | None:
    """The folder of the gin files that come with t5; None without t5."""
    spec = importlib.util.find_spec("t5")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "models" / "gin"


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _unmet(requirement: Requirement) -> str | None:
    found = _version(requirement.name)
    if found is None:
        return f"{requirement}, which is not installed"
    if not requirement.specifier.contains(found, prereleases=True):
        return f"{requirement}; {found} is installed"
    return None


def _digest(path: Path, algorithm: str) -> str:
    """A file's hash as a RECORD writes it."""
    digest = hashlib.new(algorithm, path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
