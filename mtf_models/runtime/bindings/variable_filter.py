"""Which variables a run trains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, did_you_mean
from mtf_models.mesh import Variable

VariableFilter = str | Callable[[Variable], bool]
"""A regular expression that is searched for in names, or a function of a variable."""


@configurable(module="mesh_tensorflow.transformer.utils")
def variable_filter_max_size(v: Variable, max_size: float = 1e7) -> bool:
    """Whether a variable has at most `max_size` elements."""
    return v.shape.size <= max_size


def trained_variables(
    variables: Iterable[Variable], chosen_by: VariableFilter | None
) -> list[Variable]:
    """The variables that a run trains; all others stay as they are.

    Args:
        variables: of the model.
        chosen_by: see `run.variable_filter`; None for all that can be trained.

    Raises:
        ConfigError: if the filter chooses nothing.
    """
    trainable = [v for v in variables if v.trainable]
    if chosen_by is None:
        return trainable
    chosen = [v for v in trainable if _chooses(chosen_by, v)]
    if not chosen:
        names = [v.name for v in trainable]
        near = did_you_mean(chosen_by, names) if isinstance(chosen_by, str) else "."
        raise ConfigError(
            f"run.variable_filter = {chosen_by!r} chooses none of the {len(names)} variables, so "
            f"nothing would be trained{near} A filter is a regular expression that is searched "
            "for in names."
        )
    return chosen


def filter_text(chosen_by: VariableFilter) -> str:
    """A filter as it is written in gin."""
    return repr(chosen_by) if isinstance(chosen_by, str) else f"@{chosen_by.__name__}"


def lines_of(trained: Sequence[Variable], variables: Iterable[Variable]) -> list[str]:
    """What is trained and what is not, for a reader: a count, then the names.

    Args:
        trained: what is.
        variables: of the model.
    """
    everything = list(variables)
    part, whole = (sum(v.shape.size for v in some) for some in (trained, everything))
    count = f"{len(trained)} of {len(everything)} variables, {part:,} of {whole:,} parameters"
    return [count, *(f"  {v.name} [{', '.join(map(str, v.shape))}]" for v in trained)]


def _chooses(chosen_by: VariableFilter, variable: Variable) -> bool:
    if isinstance(chosen_by, str):
        return re.search(chosen_by, variable.name) is not None
    return bool(chosen_by(variable))
