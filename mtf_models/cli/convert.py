"""`mtf convert`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import not_negative, options_from, positive
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import ConvertOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument(
        "source",
        nargs="+",
        metavar="SOURCE",
        help="run folder, prefix of a checkpoint, or Hugging Face folder",
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument(
        "--to",
        metavar="FORMAT",
        help="the format to write: mesh_tf, a run folder (the default), or hugging_face",
    )
    parser.add_argument(
        "--step", type=not_negative, metavar="N", help="the checkpoint (default: the latest)"
    )
    parser.add_argument(
        "--dtype", metavar="DTYPE", help="dtype of the weights (default: as they are)"
    )
    _add_combinations(parser)


def _add_combinations(parser: argparse.ArgumentParser) -> None:
    combine = parser.add_argument_group("combining checkpoints")
    one = combine.add_mutually_exclusive_group()
    one.add_argument("--average", action="store_true", help="the mean of all sources")
    one.add_argument(
        "--average_last_n",
        type=positive,
        metavar="N",
        help="the mean of the last N checkpoints of the source",
    )
    one.add_argument(
        "--ensemble", action="store_true", help="the sources as members of an ensemble"
    )
    one.add_argument(
        "--autoensemble", type=positive, metavar="N", help="an ensemble of N times the source"
    )
    one.add_argument("--extract_first", action="store_true", help="the first member of an ensemble")
    combine.add_argument(
        "--global_step",
        type=not_negative,
        metavar="N",
        help="the step of the result (default: the latest of the sources)",
    )
    combine.add_argument(
        "--keep_slots", action="store_true", help="write optimizer slots too, combined alike"
    )


def run(args: argparse.Namespace) -> int:
    """Converts, and returns the exit status."""
    options = options_from(args, ConvertOptions)
    start_tensorflow()
    from mtf_models.runtime.conversion import convert

    convert.run(options)
    return 0
