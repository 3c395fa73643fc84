"""Text files with one example a line."""

import codecs
from pathlib import Path

from mtf_models.errors import DataError

_SHOWN = 5


def lines(path: str | Path) -> list[str]:
    """Reads the lines of a UTF-8 text file.

    Args:
        path: the file.

    Returns:
        Its lines in order, without line feed and carriage return. An empty line is an example; a
        last line without line feed counts.

    Raises:
        DataError: the file cannot be read, or lines of it are not UTF-8: they are listed.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    raw = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if raw[-1] == b"":
        raw.pop()
    texts, faults = [], []
    for number, line in enumerate(raw, start=1):
        try:
            texts.append(line.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            faults.append(f"line {number} has the byte 0x{line[error.start]:02x}")
    if faults:
        more = f", and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise DataError(
            f"{path} is not UTF-8: {', '.join(faults[:_SHOWN])}{more}. Convert it to UTF-8."
        )
    return texts
