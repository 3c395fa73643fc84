"""The benchmarks by name."""

from __future__ import annotations

from mtf_models.runtime.benchmarks import (
    decoding,
    experts,
    growth,
    layouts,
    reading,
    starting,
    training,
)
from mtf_models.runtime.options import BenchOptions
from mtf_models.runtime.whole_file import check_output

_RUNS = {
    "train": training.run,
    "decode": decoding.run,
    "moe": experts.run,
    "data": reading.run,
    "layouts": layouts.run,
    "growth": growth.run,
    "startup": starting.run,
}


def run(options: BenchOptions) -> None:
    """Runs one benchmark, which prints its figures.

    Raises:
        MtfError: if the model cannot be built, an option does nothing, or the file for the figures
            is there already.
    """
    if options.json:
        check_output(options.json, "--json")
    _RUNS[options.benchmark](options)
