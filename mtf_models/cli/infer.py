"""`mtf infer`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import add_model_arguments, not_negative, options_from, positive
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import InferOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    inference = parser.add_argument_group("inference")
    inference.add_argument(
        "--input", required=True, metavar="FILE", help="text file, one input a line"
    )
    inference.add_argument(
        "--output", required=True, metavar="FILE", help="JSON lines file to write"
    )
    inference.add_argument(
        "--step", type=not_negative, metavar="N", help="the checkpoint (default: the latest)"
    )
    inference.add_argument(
        "--max_decode_length",
        type=positive,
        metavar="N",
        help="at most so many tokens for each input",
    )


def run(args: argparse.Namespace) -> int:
    """Decodes, and returns the exit status."""
    options = options_from(args, InferOptions)
    start_tensorflow()
    from mtf_models.runtime import infer

    infer.run(options)
    return 0
