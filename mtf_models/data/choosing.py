"""Which task of a mixture each example is of: by shares, or by the mixture's own `sample_fn`."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import seqio
import tensorflow as tf

from mtf_models.errors import DataError

Choice = Callable[[int, int], Iterator[str]]
"""Maps a seed, and how many examples were drawn, to the task of each example from there on."""

_CHOICES = 1024
_CHOOSING = 1  # Tells these random bits from those that order an epoch.

SampleFn = Callable[[Sequence[tf.data.Dataset], Sequence[float], int], tf.data.Dataset]


def by_shares(shares: Mapping[str, float]) -> Choice:
    """Draws tasks at random.

    Args:
        shares: task name to its part of all examples.
    """
    return functools.partial(_by_shares, dict(shares))


def by_sample_fn(mixture: str, sample_fn: SampleFn, rates: Mapping[str, float]) -> Choice:
    """Lets a function of SeqIO's kind choose, which is given endless datasets and chooses of them.

    What it is given are numbers of tasks in the place of their examples: so any position can be
    gone on from without reading the examples before.

    Args:
        mixture: its name, for messages.
        sample_fn: of the mixture.
        rates: task name to its rate, in the order in which the function is to get them.

    Raises:
        DataError: when its tasks are asked for, if it cannot choose of numbers, changes them, or
            comes to an end.
    """
    return functools.partial(_by_sample_fn, mixture, sample_fn, dict(rates))


def own_sample_fn(mixture: seqio.Mixture) -> SampleFn | None:
    """The function by which a mixture chooses, or None where it draws by its rates."""
    found = mixture._sample_fn  # SeqIO has no public name for it.
    inner = found
    while isinstance(inner, functools.partial):
        inner = inner.func
    return None if inner == tf.data.Dataset.sample_from_datasets else found


def _by_shares(shares: Mapping[str, float], seed: int, start: int) -> Iterator[str]:
    names = list(shares)
    if len(names) == 1:
        yield from itertools.repeat(names[0])
    edges = np.cumsum([shares[name] for name in names])
    first, offset = divmod(start, _CHOICES)
    for block in itertools.count(first):
        # Raw bits, as NumPy keeps their stream for ever; 53 of them are a number in [0, 1).
        bits = np.random.PCG64([seed, _CHOOSING, block]).random_raw(_CHOICES)
        numbers = (bits >> np.uint64(11)) * 2.0**-53
        chosen = np.searchsorted(edges / edges[-1], numbers, side="right")
        yield from (names[number] for number in chosen[offset:])
        offset = 0


def _by_sample_fn(
    mixture: str, sample_fn: SampleFn, rates: Mapping[str, float], seed: int, start: int
) -> Iterator[str]:
    names = list(rates)
    for numbers in _numbers(mixture, sample_fn, list(rates.values()), seed, start):
        yield from (names[number] for number in numbers)
    raise DataError(
        f"The sample_fn of the mixture {mixture} comes to an end, and training needs examples "
        "without end: let it repeat what it makes, or drop it to draw by the rates."
    )


def _numbers(
    mixture: str, sample_fn: SampleFn, rates: Sequence[float], seed: int, start: int
) -> Iterator[np.ndarray]:
    """Numbers of tasks, in blocks."""
    given = [tf.data.Dataset.from_tensors(np.int64(n)).repeat() for n in range(len(rates))]
    options = tf.data.Options()
    options.deterministic = True
    try:
        dataset = sample_fn(given, rates, seed).with_options(options)
    except Exception as error:  # Whatever a user's function may raise.
        raise _changed(mixture, _first_line(error)) from error
    if dataset.element_spec != tf.TensorSpec([], tf.int64):
        raise _changed(mixture, f"it makes {dataset.element_spec} of them")
    try:
        for numbers in dataset.skip(start).batch(_CHOICES).as_numpy_iterator():
            if others := sorted({*numbers.tolist()} - {*range(len(rates))}):
                raise _changed(mixture, f"it makes {others[0]} of 0 to {len(rates) - 1}")
            yield numbers
    except tf.errors.OpError as error:
        raise _changed(mixture, _first_line(error)) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _changed(mixture: str, fault: str) -> DataError:
    return DataError(
        f"The sample_fn of the mixture {mixture} is given numbers of tasks in the place of their "
        f"examples: {fault}. It may choose among datasets, and not look into their examples or "
        "change them; do that in the preprocessors of the tasks, or drop it to draw by the rates."
    )
