"""The exceptions of the package: each says what was found, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class MtfError(Exception):
    """Base of every error that is a user's to mend; the command line prints it without a traceback.

    Attributes:
        exit_status: the exit status of a command that ends with the error: 2 for a request that
            could not be started, 1 for a failure of a run that had started.
    """

    exit_status: int = 2


class ShapeError(MtfError, ValueError):
    """Dimensions that do not fit together."""


class LayoutError(MtfError, ValueError):
    """Layout rules that cannot lay out a tensor on a mesh."""


class DeviceError(MtfError, RuntimeError):
    """A device that is asked for and is not there, or cannot be used any more."""


class ConfigError(MtfError, ValueError):
    """A gin file, binding or flag that cannot be understood."""


class DataError(MtfError, ValueError):
    """Input that is missing, malformed or does not fit the vocabulary."""


class CheckpointError(MtfError, RuntimeError):
    """A checkpoint or run folder that cannot be read, written, or does not fit the model."""


class ProcessError(MtfError, RuntimeError):
    """Another process of the same program that is gone, never came, or does something else."""

    exit_status = 1


class TrainingDiverged(MtfError, ArithmeticError):
    """A loss that is not finite."""

    exit_status = 1


def refuse(what: str, faults: Iterable[str | None]) -> None:
    """Refuses a call for all that is wrong with it at once.

    Args:
        what: the call and what it was given, the beginning of the message.
        faults: what is wrong; None and "" are nothing.

    Raises:
        ShapeError: if there is any fault.
    """
    found = [fault for fault in faults if fault]
    if found:
        raise ShapeError(f"{what}: {'; '.join(found)}.")


def require_positive(owner: str, **sizes: int) -> None:
    """Refuses hyper-parameters that are no whole number from 1.

    Args:
        owner: whose parameters they are.
        **sizes: parameter to value.

    Raises:
        ConfigError: listing all of them.
    """
    bad = [f"{n} = {v!r}" for n, v in sizes.items() if not isinstance(v, int) or v < 1]
    if bad:
        raise ConfigError(f"{owner} has {', '.join(bad)}; give whole numbers from 1.")


@contextmanager
def failing_run() -> Iterator[None]:
    """Around a run that has started: an `MtfError` that leaves the block gets exit status 1."""
    try:
        yield
    except MtfError as error:
        error.exit_status = 1
        raise


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known names, else all of them.

    Args:
        name: the name that is not known.
        known: the names that are.

    Returns:
        "; did you mean a or b?", or "; known: a, b, c." where none is near.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else f"; known: {', '.join(names)}."
