"""Whether a checkpoint fits the variables of a model: all differences in one message."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from mtf_models.checkpoint.historical import stored_names
from mtf_models.checkpoint.names import GLOBAL_STEP, is_slot
from mtf_models.checkpoint.source import Source
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Variable

_log = logging.getLogger("mtf_models")


def fitted(
    reader: Source,
    variables: Mapping[str, Variable],
    allow_missing: Iterable[str] = (),
    allow_left_over: Iterable[str] = (),
    allow_partial: bool = False,
    sources: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Compares names, sizes and kinds of numbers; assigns nothing.

    Args:
        reader: the checkpoint.
        variables: name in the model -> variable.
        allow_missing: patterns ("*_slot_v") of names that the checkpoint may lack.
        allow_left_over: patterns of names that may be in the checkpoint only.
        allow_partial: whether anything may be missing or left over; it is listed then.
        sources: name in the model -> name in the checkpoint; by default the same or, where that is
            not there, a historical one (`historical.stored_names`).

    Returns:
        For each name that both have, in the order of `variables`, that in the checkpoint.

    Raises:
        CheckpointError: listing all that is missing, left over or different.
    """
    if sources is None:
        sources = stored_names(variables, reader.names)
    found = {name: sources[name] for name in variables if sources.get(name) in reader}
    missing = [name for name in variables if name not in found]
    taken = {GLOBAL_STEP, *found.values()}
    left_over = [name for name in reader.names if name not in taken]
    unmatched = {
        "missing in the checkpoint": [
            f"{name} {variables[name].shape.to_integer_list}"
            for name in _forbidden(missing, allow_missing)
        ],
        "left over in the checkpoint": [
            f"{name} {list(reader.shape(name))}" for name in _forbidden(left_over, allow_left_over)
        ],
    }
    different = [d for n, s in found.items() for d in _differences(reader, s, variables[n])]
    faults = {**({} if allow_partial else unmatched), "different": different}
    if any(faults.values()):
        raise CheckpointError(_text(reader, faults, can_be_partial=not different))
    _report(reader, variables, found, missing, left_over, unmatched if allow_partial else {})
    return found


def _text(reader: Source, faults: Mapping[str, list[str]], can_be_partial: bool) -> str:
    lines = "\n".join(f"  {k} ({len(v)}): {', '.join(v)}" for k, v in faults.items() if v)
    partial = (
        ", or allow a partial one (--allow_partial), which leaves the rest at its initial values"
        if can_be_partial
        else ""
    )
    return (
        f"Checkpoint {reader.prefix} does not fit the model, and nothing was restored:\n{lines}\n"
        "Take the config that the checkpoint was made with, or start in another folder"
        f"{partial}."
    )


def _report(
    reader: Source,
    variables: Mapping[str, Variable],
    found: Mapping[str, str],
    missing: list[str],
    left_over: list[str],
    unmatched: Mapping[str, list[str]],
) -> None:
    """Says what was not one to one."""
    renamed = [(name, stored) for name, stored in found.items() if name != stored]
    if renamed:
        _log.info(
            "%d variables have other names in %s, such as %s for %s.",
            len(renamed),
            reader.prefix,
            *reversed(renamed[0]),
        )
    for kind, names in unmatched.items():
        if names:
            _log.warning("%s, %d: %s.", kind.capitalize(), len(names), ", ".join(names))
    once = [s for n, s in found.items() if is_of_all_members(s, reader.shape(s), variables[n])]
    if once:
        _log.info("All members of the ensemble begin with the same %s.", ", ".join(once))
    slots = [name for name in missing if is_slot(name)]
    others = [name for name in missing if not is_slot(name)]
    if slots:
        _log.info("%d optimizer slots are not in %s, and start anew.", len(slots), reader.prefix)
    if others:
        _log.warning(
            "%d variables stay as they are, at their initial values if new: %s.",
            len(others),
            ", ".join(others),
        )
    if left_over and not unmatched:
        _log.debug("Left in the checkpoint, %d are not needed: %s.", len(left_over), left_over)


def _forbidden(names: list[str], patterns: Iterable[str]) -> list[str]:
    patterns = tuple(patterns)
    return [name for name in names if not any(fnmatchcase(name, p) for p in patterns)]


def is_of_all_members(stored: str, sizes: Sequence[int], variable: Variable) -> bool:
    """Whether the members of an ensemble all begin with what is stored once.

    Ensembles of the original with an output kernel of its own have one for all members.

    Args:
        stored: the name in the checkpoint.
        sizes: the shape there.
        variable: of the model.
    """
    first = variable.shape.dims[:1]
    names = [dim.name for dim in first]
    common = "logits/kernel" in stored and names == ["ensemble"]
    return common and list(sizes) == (variable.shape - first).to_integer_list


def _differences(reader: Source, stored: str, variable: Variable) -> list[str]:
    differences = []
    found, wanted = list(reader.shape(stored)), variable.shape.to_integer_list
    if found != wanted and not is_of_all_members(stored, found, variable):
        differences.append(f"{stored} is {found} in the checkpoint and {wanted} in the model")
    if reader.dtype(stored).is_floating != variable.dtype.is_floating:
        kinds = reader.dtype(stored).name, variable.dtype.name
        differences.append(f"{stored} is {kinds[0]} in the checkpoint and {kinds[1]} in the model")
    return differences
