"""`mtf score`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import add_model_arguments, options_from
from mtf_models.cli.examples import add_example_arguments
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import ScoreOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    add_example_arguments(parser)
    parser.add_argument(
        "--output", metavar="FILE", help="JSON lines file to write (default: standard output)"
    )


def run(args: argparse.Namespace) -> int:
    """Scores, and returns the exit status."""
    options = options_from(args, ScoreOptions)
    start_tensorflow()
    from mtf_models.runtime.using import score

    score.run(options)
    return 0
