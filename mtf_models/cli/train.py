"""`mtf train`."""

from __future__ import annotations

import argparse
from pathlib import Path

from mtf_models.cli.arguments import (
    add_model_arguments,
    add_padding_argument,
    not_negative,
    options_from,
    positive,
)
from mtf_models.cli.start import start_tensorflow
from mtf_models.cli.text_task import add_text_task_arguments
from mtf_models.errors import ConfigError
from mtf_models.runtime.options import TrainOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser, default_folder="with --init_from, one beside that")
    add_padding_argument(parser)
    training = parser.add_argument_group("training")
    training.add_argument(
        "--steps",
        type=positive,
        metavar="N",
        help="the step at which training ends; with --init_from how many steps to make",
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
    training.add_argument(
        "--keep_best",
        metavar="TASK/METRIC",
        help="keep the best checkpoint that is evaluated, by this metric, in DIR/best; what is "
        "best, the highest or the lowest, can be said before it: min:TASK/METRIC",
    )
    add_text_task_arguments(parser)
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
    _add_initial_arguments(parser)


def _add_initial_arguments(parser: argparse.ArgumentParser) -> None:
    initial = parser.add_argument_group("fine-tuning")
    initial.add_argument(
        "--init_from",
        metavar="DIR",
        help="begin with the checkpoint of this run folder, and with its config unless gin files "
        "are given; or a checkpoint itself, DIR/model.ckpt-N, or a Hugging Face folder",
    )
    initial.add_argument(
        "--init_step",
        type=not_negative,
        metavar="N",
        help="which checkpoint of that folder (default: the latest)",
    )
    initial.add_argument(
        "--init_steps",
        choices=["checkpoint", "zero"],
        help="count steps, and the learning-rate schedule, on from the checkpoint (default) or "
        "from zero",
    )
    initial.add_argument(
        "--init_optimizer",
        choices=["keep", "fresh"],
        help="take the optimizer's slots too, or not (default: if there are any)",
    )


def run(args: argparse.Namespace) -> int:
    """Trains, and returns the exit status."""
    if not hasattr(args, "model_dir"):
        args.model_dir = _default_folder(args)
    options = options_from(args, TrainOptions)
    start_tensorflow()
    from mtf_models.runtime.training import train

    train.run(options)
    return 0


def _default_folder(args: argparse.Namespace) -> str:
    """Beside the run that this one begins with, with a name that tells the task."""
    if not hasattr(args, "init_from"):
        raise ConfigError("--model_dir is required: give the folder of the run.")
    begun = Path(args.init_from)
    folder = (begun if begun.is_dir() else begun.parent).absolute()
    return str(folder.with_name(f"{folder.name}-{getattr(args, 'task', 'tuned')}"))
