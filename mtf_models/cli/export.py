"""`mtf export`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import add_model_arguments, not_negative, options_from
from mtf_models.cli.decoding import add_decoding_arguments
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import ExportOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    export = parser.add_argument_group("export")
    export.add_argument("--output", required=True, metavar="FOLDER", help="the folder to write")
    export.add_argument(
        "--step", type=not_negative, metavar="N", help="the checkpoint (default: the latest)"
    )
    export.add_argument(
        "--task", metavar="NAME", help="the task of the vocabularies (default: the config's)"
    )
    decoding = parser.add_argument_group(
        "decoding, of the signatures that it is for (default: as the config says, else a beam of "
        "4, alpha 0.6, temperature 1)"
    )
    add_decoding_arguments(decoding)


def run(args: argparse.Namespace) -> int:
    """Exports, and returns the exit status."""
    options = options_from(args, ExportOptions)
    start_tensorflow()
    from mtf_models.runtime.using import export

    export.run(options)
    return 0
