"""Mixtures: at which rates their tasks are drawn, and whether they speak one language."""

import functools
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import seqio

from mtf_models.data.choosing import Choice, by_sample_fn, by_shares, own_sample_fn
from mtf_models.data.tasks import tasks_with_split
from mtf_models.errors import DataError

_log = logging.getLogger("mtf_models")


def mixing_shares(mixture: seqio.Mixture, split: str) -> dict[str, float]:
    """How large a part of the examples of a mixture each of its tasks is.

    A rate that depends on the size of a task, such as `seqio.mixing_rate_num_examples` with its
    cap (`maximum`) and `temperature`, may be used for any task: what its source does not know is
    counted, once, by reading it.

    Args:
        mixture: the mixture; mixtures in it share their rate among their tasks.
        split: tasks without it are left out.

    Returns:
        Task name to a share; they add up to 1. Tasks that are never drawn are left out.

    Raises:
        DataError: if no task has the split, or the rates are no numbers from 0 of which one is
            above.
    """
    rates = _checked_rates(mixture, split)
    all_are_read = own_sample_fn(mixture) is not None
    total = sum(rates.values())
    return {name: rate / total for name, rate in rates.items() if rate > 0 or all_are_read}


def mixing_choice(mixture: seqio.Mixture, split: str) -> Choice:
    """Which task each example of a mixture is of.

    Args:
        mixture: the mixture. A `sample_fn` of its own chooses; those of mixtures in it do not, as
            in SeqIO.
        split: tasks without it are left out.

    Raises:
        DataError: as of `mixing_shares`.
    """
    inner = [part.name for part in _mixtures_in(mixture) if own_sample_fn(part) is not None]
    if inner:
        _log.warning(
            "%s: the sample_fn of %s, which is a part of it, does not choose: rates do, as in "
            "SeqIO. Give the whole one its own.",
            mixture.name,
            " and of ".join(inner),
        )
    chosen = own_sample_fn(mixture)
    if chosen is None:
        return by_shares(mixing_shares(mixture, split))
    _log.info("%s: its own sample_fn says which task each example is of.", mixture.name)
    return by_sample_fn(mixture.name, chosen, _checked_rates(mixture, split))


def _checked_rates(mixture: seqio.Mixture, split: str) -> dict[str, float]:
    """The rates of the tasks that have a split."""
    present = [task.name for task in tasks_with_split(mixture.name, split)]
    absent = [task.name for task in mixture.tasks if task.name not in present]
    if absent:
        _log.warning(
            "%s: left out %s, which have no split %r.", mixture.name, ", ".join(absent), split
        )
    rates = _rates(mixture)
    wrong = {name: rate for name, rate in rates.items() if not 0 <= rate < math.inf}
    total = sum(rates[name] for name in present)
    if wrong or not total > 0:
        raise DataError(
            f"The rates of the mixture {mixture.name} are {wrong or rates}: they must be numbers "
            "from 0, and one above."
        )
    return {name: rates[name] for name in present}


def check_vocabularies(task: seqio.Task | seqio.Mixture) -> None:
    """Refuses a mixture whose tasks would give the same ids to different things.

    Args:
        task: a task, of which there is nothing to check, or a mixture.

    Raises:
        DataError: if the vocabularies of a feature, or its dtypes, differ.
    """
    faults = []
    for name in task.output_features if isinstance(task, seqio.Mixture) else ():
        kinds: list[tuple[Any, list[str]]] = []
        for part in task.tasks:
            feature = part.output_features[name]
            alike = (names for known, names in kinds if _alike(known, feature))
            names = next(alike, None)
            if names is None:
                kinds.append((feature, [part.name]))
            else:
                names.append(part.name)
        if len(kinds) > 1:
            texts = [f"{', '.join(names)}: {_described(feature)}" for feature, names in kinds]
            faults.append(f"{name} ({'; '.join(texts)})")
    if faults:
        raise DataError(
            f"The tasks of the mixture {task.name} do not have the same vocabulary for "
            f"{' and for '.join(faults)}. One model reads ids of one vocabulary: give the tasks "
            "the same seqio.Feature, or train them apart."
        )


def num_examples(task: seqio.Task, split: str) -> int:
    """How many examples go into the preprocessing of a split: known to its source, or counted.

    Args:
        task: the task.
        split: the split.
    """
    known = task.num_input_examples(split)
    return _count(task.source, split, task.name) if known is None else known


class _Counted:
    """A task as a rate sees it, which knows how many examples it has."""

    def __init__(self, task: seqio.Task):
        self._task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def num_input_examples(self, split: str = "train") -> int:
        return num_examples(self._task, split)


def _mixtures_in(mixture: seqio.Mixture) -> Iterator[seqio.Mixture]:
    tasks = {task.name for task in mixture.tasks}
    for name in mixture.rate_per_task_name:
        if name not in tasks:
            part = seqio.MixtureRegistry.get(name)
            yield part
            yield from _mixtures_in(part)


def _rates(mixture: seqio.Mixture) -> dict[str, float]:
    tasks = {task.name: task for task in mixture.tasks}
    rates = dict.fromkeys(tasks, 0.0)
    for name, rate in mixture.rate_per_task_name.items():
        inner = {name: 1.0} if name in tasks else _rates(seqio.MixtureRegistry.get(name))
        value = _value(rate, tasks.get(name))
        for task, part in inner.items():
            rates[task] += value * part / sum(inner.values())
    return rates


def _value(rate: float | Callable[[Any], float], task: seqio.Task | None) -> float:
    return float(rate(_Counted(task)) if callable(rate) else rate)


@functools.cache
def _count(source: seqio.DataSource, split: str, name: str) -> int:
    dataset = source.get_dataset(split, shuffle=False)
    count = int(dataset.reduce(np.int64(0), lambda total, _: total + 1))
    _log.info("Counted %s examples in the split %r of %s.", f"{count:,}", split, name)
    return count


def _alike(first: Any, second: Any) -> bool:
    if first.dtype != second.dtype:
        return False
    return first.vocabulary is second.vocabulary or first.vocabulary == second.vocabulary


def _described(feature: Any) -> str:
    vocabulary = feature.vocabulary
    return f"{type(vocabulary).__name__} of {vocabulary.vocab_size} ids, {feature.dtype.name}"
