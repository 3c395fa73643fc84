"""What a command was, in its run folder."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mtf_models.errors import MtfError

_log = logging.getLogger("mtf_models")


@contextmanager
def recorded_command(folder: str | Path) -> Iterator[None]:
    """Around a command's work: writes its line into `commands/command`, or `command.1`, ...

    It is written however the work ends, unless that was refused and nothing was changed.

    Args:
        folder: the run folder.
    """
    refused = False
    try:
        yield
    except MtfError as error:
        refused = error.exit_status == MtfError.exit_status
        raise
    finally:
        if not refused and Path(folder).is_dir():
            _record(Path(folder) / "commands")


def _record(commands: Path) -> None:
    try:
        commands.mkdir(exist_ok=True)
        number = sum(1 for _ in commands.glob("command*"))
        name = f"command.{number}" if number else "command"
        (commands / name).write_text(f"{shlex.join(sys.argv)}\n", encoding="utf-8")
    except OSError as error:
        _log.warning("The command is not recorded: %s: %s.", commands, error.strerror)
