"""The bytes of a file, decompressed, and the files that a pattern names."""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import mmap
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mtf_models.errors import DataError

COMPRESSIONS: dict[str, Callable[[str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
"""Suffix of a compressed file to what opens it."""

_BROKEN = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


def matching(patterns: str | Path | Iterable[str | Path]) -> list[str]:
    """The files that paths or globs name, each pattern's in alphabetical order.

    Args:
        patterns: one or several; a path is itself, whether it exists or not.

    Raises:
        DataError: naming all globs that match no file.
    """
    given = [patterns] if isinstance(patterns, str | Path) else list(patterns)
    found: list[str] = []
    missing = []
    for pattern in map(str, given):
        is_path = Path(pattern).exists() or not glob.has_magic(pattern)
        files = [pattern] if is_path else sorted(glob.glob(pattern, recursive=True))
        if not files:
            missing.append(pattern)
        found += files
    if missing:
        raise DataError(
            f"No file matches {', '.join(missing)}: a glob is written like 'data/part-*.tsv'."
        )
    return list(dict.fromkeys(found))


def content_of(path: str) -> bytes | mmap.mmap:
    """The bytes of a file: mapped if it is plain, in memory if its suffix is a compression's.

    Args:
        path: of the file.

    Raises:
        DataError: if it cannot be read, or is not the compressed file that its name says.
    """
    compression = COMPRESSIONS.get(Path(path).suffix)
    try:
        if compression is not None:
            with compression(path) as file:
                return file.read()
        with open(path, "rb") as file:
            if not file.seek(0, 2):
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except _BROKEN as error:
        raise DataError(
            f"{path} is not a whole {Path(path).suffix} file ({error}): compress it again, or take "
            f"{Path(path).suffix} off its name."
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def without_compression(path: str) -> str:
    """The name of a file without the suffix of its compression."""
    return path.removesuffix(Path(path).suffix) if Path(path).suffix in COMPRESSIONS else path
