"""`mtf tasks`."""

from __future__ import annotations

import argparse

from mtf_models.cli.arguments import not_negative, options_from, positive
from mtf_models.cli.start import start_tensorflow
from mtf_models.cli.text_task import add_description_arguments
from mtf_models.runtime.options import (
    ListTasksOptions,
    ShowTaskOptions,
    TrainVocabularyOptions,
)

_OPTIONS = {
    "list": ListTasksOptions,
    "show": ShowTaskOptions,
    "train-vocab": TrainVocabularyOptions,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the actions of the command and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    text = "list the tasks that there are (default)"
    listing = actions.add_parser("list", help=text, description=f"{text}.")
    listing.add_argument("text", nargs="?", metavar="TEXT", help="only those with this in them")
    text = "print examples after each stage, and measure their lengths"
    show = actions.add_parser("show", help=text, description=f"{text}.")
    _add_show_arguments(show)
    text = "train a SentencePiece vocabulary"
    train = actions.add_parser("train-vocab", help=text, description=f"{text}.")
    _add_training_arguments(train)
    for each in (listing, show, train):
        each.add_argument(
            "--module_import",
            action="append",
            metavar="MODULE",
            help="Python module that registers tasks (repeatable)",
        )
        each.add_argument("--data_dir", metavar="DIR", help="where prepared data are kept")


def _add_show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="NAME", help="a task, a file, or a dataset")
    parser.add_argument("--split", metavar="NAME", help="of the task (default: train)")
    parser.add_argument(
        "--length",
        metavar="N",
        help='the length of a row, or lengths as "inputs:128,targets:64" (default: 512)',
    )
    parser.add_argument(
        "--num_examples", type=positive, metavar="N", help="how many are measured (default: 1000)"
    )
    parser.add_argument(
        "--show", type=not_negative, metavar="N", help="how many are printed (default: 2)"
    )
    parser.add_argument("--png", metavar="FILE", help="draw the histograms into this picture too")
    add_description_arguments(parser.add_argument_group("of a file or dataset"))


def _add_training_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="NAME", help="a task, a file, or a dataset")
    parser.add_argument("--output", required=True, metavar="FILE.model", help="file to write")
    parser.add_argument("--size", type=positive, metavar="N", help="pieces (default: 8000)")
    parser.add_argument(
        "--model_type", choices=["unigram", "bpe", "char", "word"], help="(default: unigram)"
    )
    parser.add_argument("--split", metavar="NAME", help="of the task (default: train)")
    parser.add_argument(
        "--features", metavar="NAME,...", help="whose texts are taken (default: all)"
    )
    parser.add_argument(
        "--num_examples", type=positive, metavar="N", help="at most so many (default: all)"
    )


def run(args: argparse.Namespace) -> int:
    """Lists, shows or trains, and returns the exit status."""
    action = getattr(args, "action", None) or "list"
    options = options_from(args, _OPTIONS[action])
    start_tensorflow()
    from mtf_models.runtime.using import tasks

    {"list": tasks.list_tasks, "show": tasks.show_task, "train-vocab": tasks.train_vocabulary}[
        action
    ](options)
    return 0
