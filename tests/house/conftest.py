"""The sources that the house rules are checked on."""

import ast
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def modules(repository: Path) -> dict[str, ast.Module]:
    """Path from the root to syntax tree, for each file of the package and of its datasets."""
    files = [
        path for folder in ("mtf_models", "data") for path in (repository / folder).rglob("*.py")
    ]
    return {
        path.relative_to(repository).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(files)
    }
