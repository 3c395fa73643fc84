"""Whether a checkpoint fits the variables of a model: all differences in one message."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from mtf_models.checkpoint.names import GLOBAL_STEP
from mtf_models.checkpoint.reader import Reader
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Variable

_log = logging.getLogger("mtf_models")


def check_fit(
    reader: Reader,
    variables: Mapping[str, Variable],
    allow_missing: Iterable[str] = (),
    allow_left_over: Iterable[str] = (),
) -> list[str]:
    """Compares names, sizes and kinds of numbers; assigns nothing.

    Args:
        reader: the checkpoint.
        variables: name in the checkpoint -> variable.
        allow_missing: patterns ("*_slot_v") of names that the checkpoint may lack.
        allow_left_over: patterns of names that may be in the checkpoint only.

    Returns:
        The names that both have, in the order of `variables`.

    Raises:
        CheckpointError: listing all that is missing, left over or different.
    """
    stored = dict.fromkeys(reader.names)
    missing = [name for name in variables if name not in stored]
    left_over = [name for name in stored if name not in variables and name != GLOBAL_STEP]
    common = [name for name in variables if name in stored]
    faults = {
        "missing in the checkpoint": [
            f"{name} {variables[name].shape.to_integer_list}"
            for name in _unmatched(missing, allow_missing)
        ],
        "left over in the checkpoint": [
            f"{name} {list(reader.shape(name))}" for name in _unmatched(left_over, allow_left_over)
        ],
        "different": [d for name in common for d in _differences(reader, name, variables[name])],
    }
    if any(faults.values()):
        lines = "\n".join(f"  {k} ({len(v)}): {', '.join(v)}" for k, v in faults.items() if v)
        raise CheckpointError(
            f"Checkpoint {reader.prefix} does not fit the model, and nothing was restored:\n"
            f"{lines}\n"
            "Take the config that the checkpoint was made with, or start in another folder."
        )
    if missing:
        _log.info("Not in the checkpoint, %d keep their values: %s.", len(missing), missing)
    if left_over:
        _log.debug("Left in the checkpoint, %d are not needed: %s.", len(left_over), left_over)
    return common


def _unmatched(names: list[str], patterns: Iterable[str]) -> list[str]:
    patterns = tuple(patterns)
    return [name for name in names if not any(fnmatchcase(name, p) for p in patterns)]


def _differences(reader: Reader, name: str, variable: Variable) -> list[str]:
    differences = []
    found, wanted = list(reader.shape(name)), variable.shape.to_integer_list
    if found != wanted:
        differences.append(f"{name} is {found} in the checkpoint and {wanted} in the model")
    if reader.dtype(name).is_floating != variable.dtype.is_floating:
        kinds = reader.dtype(name).name, variable.dtype.name
        differences.append(f"{name} is {kinds[0]} in the checkpoint and {kinds[1]} in the model")
    return differences
