"""The entry point `mtf`: finds the command, parses its arguments, runs it, reports its failure."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from collections.abc import Sequence

from mtf_models import __version__
from mtf_models.cli.log import log_lines
from mtf_models.cli.parser import CommandParser, with_underscores
from mtf_models.cli.several import check_command, in_its_group
from mtf_models.errors import did_you_mean

COMMANDS = {
    "train": "train a model, or go on training it",
    "eval": "measure a trained model on a split of its tasks",
    "infer": "decode inputs with a trained model",
    "score": "say how likely a trained model finds targets",
    "export": "write a trained model as a SavedModel, which TensorFlow alone opens",
    "serve": "answer requests over HTTP with a trained model",
    "compare": "train variants of a config side by side",
    "convert": "average or combine checkpoints, or write them in another format",
    "zoo": "list configs, layers, stacks and routings, or show one of them",
    "inspect": "show the variables of a run folder, checkpoint or config",
    "tasks": "list tasks, show what is in them, train a vocabulary",
    "bench": "measure speed on this machine",
    "launch": "run a command in several processes, of this machine or of many",
    "run": "run an old command line of t5_mesh_transformer",
    "doctor": "check the installation and this machine",
}
"""Name to summary; the command is in the module `mtf_models.cli.<name>`, which has
`add_arguments(parser)` and `run(args)`, the latter returning an exit status."""


def build_parsers(name: str | None) -> tuple[CommandParser, CommandParser | None]:
    """The parser of `mtf` and, below it, that of one command.

    Args:
        name: the command whose arguments are added; the others are only listed.
    """
    parser = CommandParser(prog="mtf", description="Mesh TensorFlow models: train, use, plan.")
    parser.add_argument("--version", action="version", version=f"mtf_models {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    chosen = None
    for command, summary in COMMANDS.items():
        subparser = commands.add_parser(command, help=summary, description=f"{summary}.")
        if command == name:
            chosen = subparser
    if chosen is not None:
        module = importlib.import_module(f"mtf_models.cli.{name}")
        module.add_arguments(chosen)
        for each in chosen.with_actions():
            each.add_argument("--debug", action="store_true", help="show tracebacks of errors")
        chosen.set_defaults(run=module.run)
    return parser, chosen


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses a command line; what is wrong with it ends the process with exit status 2.

    Returns:
        The arguments that were given, `command`, its name, and `run`, its function; of a command
        that runs another one, also `words`, the line of that one.
    """
    words, inner = _split(words)
    words = with_underscores(words)
    name = next((word for word in words if not word.startswith("-")), None)
    parser, chosen = build_parsers(name)
    if name is not None and chosen is None:
        parser.error(f"unknown command {name!r}{did_you_mean(name, COMMANDS)}")
    if chosen is not None:
        chosen.refuse_unknown_flags(words)
    if inner and name != "launch":
        parser.error(f"-- is for mtf launch, and {shlex.join(inner)} follows it")
    args = parser.parse_args(words)
    args.command, args.words = name, inner
    if inner:
        check_command(parse(inner).command)
    return args


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before and after the first "--"."""
    if "--" not in words:
        return list(words), []
    place = list(words).index("--")
    return list(words[:place]), list(words[place + 1 :])


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    The whole command line is known before TensorFlow starts: a command imports it in `run`.

    Args:
        words: the command line without the program's name; None for that of this process.

    Returns:
        The exit status: 0, 1 for a failure of the run, 2 for a request that cannot be started,
        130 after Ctrl-C.
    """
    args = argparse.Namespace()
    try:
        args = parse(sys.argv[1:] if words is None else words)
        with log_lines(), in_its_group(args.command):
            return args.run(args)
    except (Exception, KeyboardInterrupt) as error:
        from mtf_models.cli.failure import report

        return report(error, debug=hasattr(args, "debug"))


if __name__ == "__main__":
    raise SystemExit(main())
