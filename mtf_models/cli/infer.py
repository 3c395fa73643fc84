"""`mtf infer`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import add_model_arguments, options_from
from mtf_models.cli.decoding import add_inference_arguments
from mtf_models.cli.examples import add_example_arguments
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import InferOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    add_example_arguments(parser)
    parser.add_argument(
        "--interactive", action="store_true", help="decode lines as they are typed or piped in"
    )
    inference = parser.add_argument_group("inference (default: as the config says)")
    inference.add_argument("--output", metavar="FILE", help="JSON lines file to write")
    add_inference_arguments(inference)


def run(args: argparse.Namespace) -> int:
    """Decodes, and returns the exit status."""
    options = options_from(args, InferOptions)
    start_tensorflow()
    if options.interactive:
        from mtf_models.cli import interactive

        interactive.run(options)
    else:
        from mtf_models.runtime.using import infer

        infer.run(options)
    return 0
