"""`mtf train`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import (
    add_model_arguments,
    add_padding_argument,
    not_negative,
    options_from,
    positive,
)
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import TrainOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    add_padding_argument(parser)
    training = parser.add_argument_group("training")
    training.add_argument(
        "--steps", type=positive, metavar="N", help="the step at which training ends"
    )
    training.add_argument(
        "--seed", type=not_negative, metavar="N", help="of initial values, data order and dropout"
    )
    training.add_argument(
        "--eval_every",
        type=not_negative,
        metavar="N",
        help="steps between evaluations; 0 for the one at the end alone",
    )
    training.add_argument(
        "--save_every", type=positive, metavar="N", help="steps between checkpoints"
    )
    training.add_argument(
        "--keep", type=positive, metavar="N", help="how many of the latest checkpoints are kept"
    )
    folder = training.add_mutually_exclusive_group()
    folder.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run that is in --model_dir, under its own config",
    )
    folder.add_argument(
        "--overwrite",
        action="store_true",
        help="delete the run that is in --model_dir and start anew",
    )
    training.add_argument(
        "--strict_mesh",
        action="store_true",
        help="refuse a mesh other than the recorded one",
    )


def run(args: argparse.Namespace) -> int:
    """Trains, and returns the exit status."""
    options = options_from(args, TrainOptions)
    start_tensorflow()
    from mtf_models.runtime import train

    train.run(options)
    return 0
