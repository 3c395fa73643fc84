"""The tasks that there are: where each is from, and what it reads."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import seqio

from mtf_models.data.prepared import PreparedSource
from mtf_models.data.tfds_datasets import datasets_of

_SHOWN = 3


class Listed(NamedTuple):
    """A task or mixture.

    Attributes:
        name: under which it is registered.
        reads: the dataset or files, or the tasks of a mixture.
        features: what an example has.
    """

    name: str
    reads: str
    features: tuple[str, ...]


def listed(names: Collection[str], text: str = "") -> list[Listed]:
    """What tasks and mixtures are, in alphabetical order.

    Args:
        names: of registered ones.
        text: those are left out that have it neither in their name nor in what they read.
    """
    found = []
    for name in sorted(names):
        task = seqio.get_mixture_or_task(name)
        found.append(Listed(name, _reads(task), tuple(task.output_features)))
    return [one for one in found if text.lower() in f"{one.name} {one.reads}".lower()]


def _reads(task: seqio.Task | seqio.Mixture) -> str:
    if isinstance(task, seqio.Mixture):
        tasks = [one.name for one in task.tasks]
        more = f" and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else ""
        return f"mixture of {', '.join(tasks[:_SHOWN])}{more}"
    if isinstance(task.source, PreparedSource):
        return task.source.dataset
    names = dict.fromkeys(name for name, _ in datasets_of(task))
    return ", ".join(names) or type(task.source).__name__
