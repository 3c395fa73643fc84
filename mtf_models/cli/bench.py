"""`mtf bench`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import (
    add_config_arguments,
    add_padding_argument,
    not_negative,
    options_from,
    positive,
)
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import BenchOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument(
        "benchmark",
        choices=["train", "decode", "moe", "data", "layouts", "growth", "startup"],
        help="what is measured",
    )
    add_config_arguments(parser)
    add_padding_argument(parser)
    measurement = parser.add_argument_group("measurement")
    measurement.add_argument(
        "--batch_size", type=positive, metavar="N", help="sequences in a batch"
    )
    measurement.add_argument(
        "--steps", type=positive, metavar="N", help="how many steps, or calls, are timed"
    )
    measurement.add_argument(
        "--seed", type=not_negative, metavar="N", help="of initial values and dropout"
    )
    measurement.add_argument(
        "--no_peers",
        dest="peers",
        action="store_false",
        help="train, decode: leave transformers out, which runs beside where it is installed",
    )
    measurement.add_argument("--json", metavar="FILE", help="write the measurements to this file")


def run(args: argparse.Namespace) -> int:
    """Measures, and returns the exit status."""
    options = options_from(args, BenchOptions)
    start_tensorflow()
    from mtf_models.runtime.benchmarks import bench

    bench.run(options)
    return 0
