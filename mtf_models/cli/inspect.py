"""`mtf inspect`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import (
    add_config_arguments,
    add_padding_argument,
    not_negative,
    options_from,
)
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import InspectOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="run folder, prefix of a checkpoint, or Hugging Face folder; or none, and the config "
        "of --gin_file",
    )
    parser.add_argument(
        "--step", type=not_negative, metavar="N", help="the checkpoint (default: the latest)"
    )
    add_config_arguments(parser)
    add_padding_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Shows what the folder or config holds, and returns the exit status."""
    options = options_from(args, InspectOptions)
    start_tensorflow()
    from mtf_models.runtime.folder import inspect

    inspect.run(options)
    return 0
