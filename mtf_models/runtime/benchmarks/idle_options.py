"""Options that would do nothing in a benchmark."""

from __future__ import annotations

import dataclasses

from mtf_models.errors import ConfigError
from mtf_models.runtime.options import BenchOptions


def refuse_idle(options: BenchOptions, measures: str, *used: str) -> None:
    """Refuses what a benchmark does not look at.

    Args:
        options: as given.
        measures: what it measures, for the message.
        used: the options that it looks at, besides `steps` and `json`.

    Raises:
        ConfigError: listing all others that are given.
    """
    plain = BenchOptions(benchmark=options.benchmark)
    takes = [*used, "steps", "json"]
    idle = [
        # What is there unless it is left out has a flag that says so.
        f"--no_{field.name}" if field.default is True else f"--{field.name}"
        for field in dataclasses.fields(options)
        if field.name not in ("benchmark", *takes)
        and getattr(options, field.name) != getattr(plain, field.name)
    ]
    if idle:
        named = [f"--{name}" for name in takes]
        raise ConfigError(
            f"mtf bench {options.benchmark} measures {measures} and takes "
            f"{', '.join(named[:-1])} and {named[-1]}; leave out "
            f"{', '.join(idle)}."
        )
