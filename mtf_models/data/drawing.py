"""Drawing training examples without end from one task or several, from any position on."""

import dataclasses
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtf_models.data.choosing import Choice
from mtf_models.data.examples import Examples
from mtf_models.data.packing import Example
from mtf_models.errors import DataError

LONG_EXAMPLES = ("cut", "skip", "refuse")
"""What can be done with examples that are longer than a row: cut at its end, left out, an error."""


class Drawn(NamedTuple):
    """An example.

    Attributes:
        example: feature name to ids [any].
        task: which task it is of.
        epoch: in which pass over that task it came, from 0.
        place: how many examples of that pass came until here, itself counted.
        skipped: how many of them were left out since the last one.
    """

    example: Example
    task: str
    epoch: int
    place: int
    skipped: int


@dataclasses.dataclass(frozen=True)
class Position:
    """Where to go on drawing.

    Attributes:
        seed: of the order.
        draws: how many examples were drawn.
        places: task name to epoch and place in it.
    """

    seed: int
    draws: int
    places: Mapping[str, tuple[int, int]]

    @classmethod
    def beginning(cls, seed: int, tasks: Sequence[str]) -> "Position":
        """Before the first example."""
        return cls(seed, 0, dict.fromkeys(tasks, (0, 0)))

    @classmethod
    def read(cls, found: Mapping[str, Any], seed: int, tasks: Sequence[str]) -> "Position":
        """Reads what `as_json` gave.

        Args:
            found: what it gave.
            seed: of the run that goes on.
            tasks: of that run.

        Raises:
            DataError: if that is not a position of a run with this seed and these tasks.
        """
        if not _is_position(found):
            raise DataError(f"{dict(found)} is no position of an input stream.")
        if found["seed"] != seed:
            raise DataError(
                f"The position {dict(found)} was recorded with seed {found['seed']}, and the"
                f" seed is now {seed}: go on with --seed={found['seed']}, or in a new folder."
            )
        places = found.get("tasks", {tasks[0]: found})
        if set(places) != set(tasks) or ("tasks" in found) != (len(tasks) > 1):
            before = ", ".join(sorted(found.get("tasks", ["one task"])))
            raise DataError(
                f"The position in the data was recorded while {before} was read, and now"
                f" {', '.join(sorted(tasks))} is to be read: go on with the tasks of before, or in"
                " a new folder."
            )
        known = {task: (places[task]["epoch"], places[task]["example"]) for task in tasks}
        return cls(seed, found.get("draws", 0), known)

    def as_json(self) -> dict[str, Any]:
        """The position as a mapping that JSON can hold."""
        places = {t: {"epoch": epoch, "example": n} for t, (epoch, n) in self.places.items()}
        if len(places) == 1:
            return {"seed": self.seed, **next(iter(places.values()))}
        return {"seed": self.seed, "draws": self.draws, "tasks": places}

    def after(self, drawn: Sequence[Drawn]) -> "Position":
        """The position after some more examples, in the order they were drawn in."""
        places = {one.task: (one.epoch, one.place) for one in drawn}
        return Position(self.seed, self.draws + len(drawn), {**self.places, **places})


@dataclasses.dataclass(frozen=True)
class Draws:
    """What is drawn from.

    Which task the n-th example is of depends on nothing but seed, choice and n, and which example
    of that task it is on nothing but the order of the task: so any position can be gone on from.

    Attributes:
        parts: task name to its examples.
        shares: task name to its part of all examples.
        choice: which of them each example is of.
        lengths: feature name to the length of a row.
        long_examples: one of `LONG_EXAMPLES`.
    """

    parts: Mapping[str, Examples]
    shares: Mapping[str, float]
    choice: Choice
    lengths: Mapping[str, int]
    long_examples: str = "cut"

    def since(self, position: Position) -> Iterator[Drawn]:
        """Yields examples from a position on, without end.

        Raises:
            DataError: if there are none, or one is too long and that is an error.
        """
        single = {
            task: self._of_task(task, epoch, place)
            for task, (epoch, place) in position.places.items()
        }
        for task in self.choice(position.seed, position.draws):
            yield next(single[task])

    def _of_task(self, task: str, epoch: int, place: int) -> Iterator[Drawn]:
        skipped = 0
        for number in itertools.count(epoch):
            for example in self.parts[task].epoch(number, place):
                place += 1
                if self.long_examples != "cut" and (long := self._too_long(example)):
                    if self.long_examples == "refuse":
                        raise _refused(task, number, place, long)
                    skipped += 1
                else:
                    yield Drawn(example, task, number, place, skipped)
                    skipped = 0
            if skipped and skipped >= place:
                raise DataError(
                    f"All {place} examples of {task} are longer than a row of "
                    f"{dict(self.lengths)}: raise run.sequence_length."
                )
            place = 0

    def _too_long(self, example: Example) -> list[str]:
        return [
            f"more than {length} {name}"
            for name, length in self.lengths.items()
            if len(example[name]) > length
        ]


def seed_of_part(seed: int, task: str) -> int:
    """The seed of the order of one task among several."""
    return int(np.random.SeedSequence([seed, zlib.crc32(task.encode())]).generate_state(1)[0])


def _is_position(found: Mapping[str, Any]) -> bool:
    one = {"epoch", "example"}
    several = found.get("tasks")
    if several is None:
        return set(found) == {*one, "seed"} and _are_counts(found.values())
    return (
        set(found) == {"tasks", "draws", "seed"}
        and _are_counts([found["draws"], found["seed"]])
        and all(set(p) == one and _are_counts(p.values()) for p in several.values())
    )


def _are_counts(values: Any) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _refused(task: str, epoch: int, place: int, long: Sequence[str]) -> DataError:
    return DataError(
        f"Example {place} of epoch {epoch} of {task} has {' and '.join(long)}. Raise "
        'run.sequence_length, or bind mesh_train_dataset_fn.long_examples to "cut" or "skip".'
    )
