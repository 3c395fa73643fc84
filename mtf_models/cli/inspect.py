"""`mtf inspect`."""

from __future__ import annotations

import argparse

from mtf_models.cli.start import start_tensorflow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument("path", metavar="PATH", help="run folder, or prefix of a checkpoint")


def run(args: argparse.Namespace) -> int:
    """Shows the folder, and returns the exit status."""
    start_tensorflow()
    from mtf_models.runtime import inspect_folder

    inspect_folder.run(args.path)
    return 0
