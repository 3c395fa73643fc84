import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

SOURCES = ("mtf_models", "gin", "data")
FILES = ("setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md")

LOOK_INSIDE = """
import json
import mtf_models, mtf_models.datasets.vocabs
from importlib import metadata
from mtf_models.gin_files import folder
print(json.dumps({
    "package": mtf_models.__file__,
    "vocabs": mtf_models.datasets.vocabs.__file__,
    "gin": sorted(path.relative_to(folder()).as_posix() for path in folder().rglob("*.gin")),
}))
"""


@pytest.fixture(scope="module")
def wheel(repository, tmp_path_factory):
    """A wheel, built as a user would, from a copy so that the checkout stays clean."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / name, copy / name, ignore=ignored)
    for name in FILES:
        shutil.copy(repository / name, copy / name)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", copy / "dist", copy],
        check=True,
        capture_output=True,
    )
    return next((copy / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder into which the wheel is installed, away from the checkout."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    return target


def tree(folder, suffixes=None):
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and (not suffixes or path.suffix in suffixes)
    )


def test_all_modules_and_data_are_in_the_wheel(repository, installed):
    package = installed / "mtf_models"
    assert tree(package / "datasets") == sorted([*tree(repository / "data"), "__init__.py"])
    assert tree(package / "gin_files", {".gin"}) == tree(repository / "gin", {".gin"})
    modules = [path for path in tree(package) if not path.startswith(("datasets/", "gin_files/"))]
    sources = [
        path
        for path in tree(repository / "mtf_models")
        if not path.startswith(("datasets/", "gin_files/"))
    ]
    assert modules == sources


def test_the_wheel_is_imported_elsewhere(repository, installed, tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", LOOK_INSIDE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    inside = json.loads(found)
    assert inside["package"] == str(installed / "mtf_models" / "__init__.py")
    assert inside["vocabs"] == str(installed / "mtf_models" / "datasets" / "vocabs" / "__init__.py")
    assert inside["gin"] == tree(repository / "gin", {".gin"})


def test_the_metadata_ask_for_releases(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    required = [line for line in lines if line.startswith("Requires-Dist:")]
    assert any("tensorflow-datasets" in line for line in required)
    assert [line for line in required if "nightly" in line or "@" in line or "git+" in line] == []
    assert "Requires-Python: >=3.11,<3.14" in lines
