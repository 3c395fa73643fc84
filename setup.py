"""Metadata, dependencies and package mapping; the settings of the tools are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (ROOT / "mtf_models/__init__.py").read_text("utf-8"), re.MULTILINE
)[1]

# t5 asks for nightly builds of seqio and tensorflow-datasets, which install into the same folders
# as the releases. pip installs the deepest dependencies first, so that the releases, which are
# asked for directly, are laid over the nightly files; `mtf doctor` checks that they were.
DEPENDENCIES = [
    "gin-config>=0.5.0",
    "importlib_resources>=5.0",  # imported by tensorflow-datasets, which does not ask for it
    "ml_dtypes>=0.5",
    "numpy>=2.0",
    "packaging>=24.0",
    "requests>=2.32",
    "rich>=13.0",
    "safetensors>=0.5",
    "sentencepiece>=0.2.0",
    "seqio>=0.0.20",
    "t5>=0.9.4",
    "tensorboard>=2.20,<2.22",
    "tensorflow>=2.21,<2.22",
    "tensorflow-datasets>=4.9.10",
    "tensorflow-text>=2.21,<2.22",
    "tqdm>=4.66",
]

TEST_DEPENDENCIES = [
    "build>=1.2",
    "httpx>=0.27",
    "hypothesis>=6.100",
    "import-linter>=2.1",
    "pytest>=8.2",
    "pytest-xdist>=3.6",
    "ruff>=0.12",
    "selenium>=4.20",
]

SERVER_DEPENDENCIES = ["fastapi>=0.135", "prometheus-client>=0.20", "uvicorn>=0.30"]

# What draws pictures: `mtf tasks show --png`, `mtf compare`.
PLOT_DEPENDENCIES = ["matplotlib>=3.9"]

# What conversions to and from Hugging Face's format are compared with: several gigabytes.
PEER_DEPENDENCIES = ["torch>=2.4", "transformers>=5.0"]


def folders_as_packages(folder: str, package: str) -> dict[str, str]:
    """Maps each folder of files below a root folder to the package it is installed as.

    Args:
        folder: a folder of the checkout, such as `gin`.
        package: the package below which its subfolders are installed.

    Returns:
        Dotted package name to path relative to the checkout.
    """
    folders = sorted(
        path.relative_to(ROOT)
        for path in (ROOT / folder).rglob("*")
        if path.is_dir() and path.name != "__pycache__"
    )
    return {".".join((package, *path.parts[1:])): path.as_posix() for path in folders}


GIN_FOLDERS = folders_as_packages("gin", "mtf_models.gin_files")
DATA_FOLDERS = folders_as_packages("data", "mtf_models.datasets")

setup(
    name="mtf_models",
    version=VERSION,
    description="Mesh TensorFlow for TensorFlow 2, and a transformer zoo written in it",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11,<3.14",
    install_requires=DEPENDENCIES,
    extras_require={
        "test": [*TEST_DEPENDENCIES, *PLOT_DEPENDENCIES, *SERVER_DEPENDENCIES],
        "peers": PEER_DEPENDENCIES,
        "plot": PLOT_DEPENDENCIES,
        "serve": SERVER_DEPENDENCIES,
    },
    packages=[*find_packages(include=["mtf_models", "mtf_models.*"]), *GIN_FOLDERS, *DATA_FOLDERS],
    package_dir={**GIN_FOLDERS, **DATA_FOLDERS},
    package_data={
        "mtf_models": ["py.typed", "serve/page.html"],
        **{package: ["*.gin", "*.md"] for package in GIN_FOLDERS},
        **{package: ["*"] for package in DATA_FOLDERS},
    },
    include_package_data=False,
    entry_points={"console_scripts": ["mtf = mtf_models.cli.main:main"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
