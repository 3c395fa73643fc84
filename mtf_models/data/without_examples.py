"""What is said of splits that have no example, whoever finds that out."""

from collections.abc import Sequence

from mtf_models.errors import DataError


def without_examples(split: str, tasks: Sequence[str]) -> DataError:
    """The error of a split that has nothing to read.

    Args:
        split: its name.
        tasks: the names of those that it is a split of.
    """
    return DataError(
        f"The split {split!r} of {' and of '.join(tasks)} has no example: take another split, put "
        "examples into this one, or mend preprocessors that leave none."
    )
