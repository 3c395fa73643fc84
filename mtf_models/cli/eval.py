"""`mtf eval`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import add_model_arguments, not_negative, options_from, positive
from mtf_models.cli.start import start_tensorflow
from mtf_models.runtime.options import EvalOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    add_model_arguments(parser)
    evaluation = parser.add_argument_group("evaluation")
    evaluation.add_argument(
        "--task", metavar="NAME", help="the task or mixture (default: the config's)"
    )
    which = evaluation.add_mutually_exclusive_group()
    which.add_argument(
        "--step", type=not_negative, metavar="N", help="the checkpoint (default: the latest)"
    )
    which.add_argument(
        "--steps", type=_steps, metavar="all|N,M", help="several checkpoints, or all there are"
    )
    which.add_argument(
        "--follow",
        action="store_true",
        help="each checkpoint of a run in training, as it comes, until its last one",
    )
    evaluation.add_argument(
        "--output",
        metavar="FOLDER",
        help="where metrics and predictions go (default: the run folder)",
    )
    evaluation.add_argument("--split", metavar="NAME", help="the split of the dataset")
    evaluation.add_argument(
        "--num_examples",
        type=positive,
        metavar="N",
        help="at most so many examples of each task (default: all)",
    )


def _steps(text: str) -> str | tuple[int, ...]:
    """Reads "all", or steps with commas between them.

    Raises:
        argparse.ArgumentTypeError: if it is anything else.
    """
    return text if text == "all" else tuple(not_negative(part) for part in text.split(","))


def run(args: argparse.Namespace) -> int:
    """Evaluates, and returns the exit status."""
    options = options_from(args, EvalOptions)
    start_tensorflow()
    from mtf_models.runtime.using import evaluate

    evaluate.run(options)
    return 0
