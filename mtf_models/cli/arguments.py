"""The arguments that several commands share, and how arguments become options."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TypeVar

Options = TypeVar("Options")


def add_model_arguments(parser: argparse.ArgumentParser, default_folder: str | None = None) -> None:
    """Adds what every command on a run folder can be told (`ModelOptions`).

    Args:
        parser: of the command.
        default_folder: what is taken if no folder is given, for a reader; None where one must be.
    """
    add_config_arguments(parser)
    run = parser.add_argument_group("run")
    run.add_argument(
        "--model_dir",
        required=default_folder is None,
        metavar="DIR",
        help="the run folder; to use a model, also a checkpoint in it, or a Hugging Face folder"
        if default_folder is None
        else f"the run folder (default: {default_folder})",
    )
    run.add_argument(
        "--data_dir",
        metavar="DIR",
        help="where prepared data are kept (default: $TFDS_DATA_DIR, else the user's cache)",
    )
    run.add_argument(
        "--allow_partial",
        action="store_true",
        help="take a checkpoint that lacks variables of the model, or has more; they are listed",
    )
    run.add_argument("--batch_size", type=positive, metavar="N", help="sequences in a batch")


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what every command that reads a config can be told (`ConfigOptions`)."""
    config = parser.add_argument_group("config")
    config.add_argument(
        "--gin_file",
        action="append",
        metavar="FILE",
        help="gin file; a relative path is looked up here, below gin/, then below t5's gin folder "
        "(repeatable)",
    )
    config.add_argument(
        "--gin_param",
        action="append",
        metavar="BINDING",
        help='gin binding that overrides the files, such as "d_model = 128" (repeatable)',
    )
    config.add_argument(
        "--gin_location_prefix",
        action="append",
        metavar="DIR",
        help="a folder in which gin files are looked for too (repeatable)",
    )
    config.add_argument(
        "--module_import",
        action="append",
        metavar="MODULE",
        help="Python module that registers tasks or layers (repeatable)",
    )
    mesh = parser.add_argument_group("mesh")
    mesh.add_argument("--mesh", metavar="AXES", help='axes and sizes, such as "batch:2;model:4"')
    mesh.add_argument(
        "--layout", metavar="RULES", help='dimension to axis, such as "batch:batch,d_ff:model"'
    )
    mesh.add_argument(
        "--strict", action="store_true", help="refuse weights that no layout rule splits"
    )


def add_padding_argument(parser: argparse.ArgumentParser) -> None:
    """Adds what commands that build a new model can be told; a run folder records it."""
    parser.add_argument(
        "--pad_vocab",
        action="store_true",
        help="pad the vocabulary until it divides over its mesh axis",
    )


def positive(text: str) -> int:
    """Reads a whole number from 1.

    Raises:
        argparse.ArgumentTypeError: if it is anything else.
    """
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """Reads a whole number from 0.

    Raises:
        argparse.ArgumentTypeError: if it is anything else.
    """
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    digits = text.replace("_", "").replace(",", "")
    if not digits.isdecimal() or int(digits) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
    return int(digits)


def options_from(args: argparse.Namespace, kind: type[Options]) -> Options:
    """Makes the options of a command from its parsed arguments.

    Args:
        args: holds what was given alone, so that defaults stand in the class of options only.
        kind: a class of `mtf_models.runtime.options`.
    """
    names = {field.name for field in fields(kind)}
    given = {name: value for name, value in vars(args).items() if name in names}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
