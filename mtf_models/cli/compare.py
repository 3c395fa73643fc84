"""`mtf compare`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import add_model_arguments, options_from, positive
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import CompareOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument(
        "--steps", type=positive, metavar="N", help="the step at which each run ends"
    )


def run(args: argparse.Namespace) -> int:
    """Trains the variants, and returns the exit status."""
    options = options_from(args, CompareOptions)
    start_tensorflow()
    from mtf_models.runtime.comparison import compare

    compare.run(options)
    return 0
