"""`mtf zoo`."""

from __future__ import annotations

import argparse
import shutil
import sys

from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import ConfigOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a config, layer, stack, vocabulary, routing or sublayer to show in full",
    )
    parser.add_argument(
        "--module_import",
        action="append",
        metavar="MODULE",
        help="module whose layers are listed too (repeatable)",
    )


def run(args: argparse.Namespace) -> int:
    """Lists what there is to choose from, or shows one of it."""
    start_tensorflow()
    from mtf_models.runtime.folder import prepare
    from mtf_models.runtime.model import zoo

    prepare.register(ConfigOptions(module_import=tuple(getattr(args, "module_import", ()))))
    name = getattr(args, "name", None)
    if name is not None:
        print(zoo.description(name))
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in zoo.overview(width):
        print(line)
    return 0
