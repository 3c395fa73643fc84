"""`mtf infer --interactive`: a line in, its texts out, until the lines end."""

from __future__ import annotations

import contextlib
import importlib
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from mtf_models.cli.arguments import options_from
from mtf_models.cli.decoding import add_inference_arguments
from mtf_models.cli.parser import CommandParser
from mtf_models.errors import ConfigError, DataError, MtfError, did_you_mean
from mtf_models.runtime.options import InferOptions
from mtf_models.runtime.using.answers import Answers
from mtf_models.runtime.using.asked import TEXT_OPTIONS

_PROMPT = "> "

_HELP = """\
A line is decoded, its text printed as it comes; of several sequences each with its score.
:set                  shows what is set; all else is as the config says
:set NAME VALUE       sets an option of mtf infer, such as :set temperature 0.7
:set NAME             leaves it to the config again
:quit, Ctrl-D         ends
Ctrl-C                stops the answer, and what there is of it stays
::TEXT                decodes :TEXT
Options: {}."""


def run(options: InferOptions) -> None:
    """Answers each line of standard input on standard output.

    At a terminal it asks for lines, and what is wrong with one is said before the next. Elsewhere
    it answers alone, and what is wrong with a line ends it.

    Raises:
        MtfError: if the folder cannot be used, options do not fit, or a line elsewhere.
        KeyboardInterrupt: if Ctrl-C stopped an answer elsewhere.
    """
    talk = _Talk(Answers(options))
    if not sys.stdin.isatty():
        for line in sys.stdin.buffer:
            if not talk.heeds(_decoded(line)):
                return
        return
    print(f"Step {talk.answers.step} of {options.model_dir}. :help says what can be typed.")
    for line in _typed():
        try:
            if line.strip() and not talk.heeds(line):
                return
        except MtfError as error:
            print(f"mtf: error: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            pass  # What there is of the answer has been printed.


class _Talk:
    """Lines and what is done about them.

    Args:
        answers: of the model.
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def heeds(self, line: str) -> bool:
        """Does what a line asks for.

        Returns:
            Whether there may be more of them.

        Raises:
            MtfError: if the line is a command that does not fit.
            KeyboardInterrupt: if Ctrl-C stopped its answer, after what there is was printed.
        """
        if not line.startswith(":") or line.startswith("::"):
            self._answer(line.removeprefix(":"))
            return True
        name, _, rest = line[1:].strip().partition(" ")
        commands = {"help": self._help, "set": self._set}
        if name == "quit":
            return False
        if name not in commands:
            known = (*commands, "quit")
            raise ConfigError(f"There is no command :{name}{did_you_mean(name, known)}")
        commands[name](rest.strip())
        return True

    def _answer(self, text: str) -> None:
        row, stopped = self.answers.answer(text, lambda piece: print(piece, end="", flush=True))
        if self.answers.streams:
            print(flush=True)
        elif "predictions" not in row:
            print(row["prediction"], flush=True)
        else:
            for score, found in zip(row["scores"], row["predictions"], strict=True):
                print(f"{score:.4f}\t{found}", flush=True)
        if stopped:
            raise KeyboardInterrupt

    def _help(self, rest: str) -> None:
        del rest
        _tell(_HELP.format(", ".join(TEXT_OPTIONS)))

    def _set(self, rest: str) -> None:
        options = self.answers.options
        name, _, value = rest.partition(" ")
        if name and name not in TEXT_OPTIONS:
            raise ConfigError(f"There is no option {name}{did_you_mean(name, TEXT_OPTIONS)}")
        if name:
            default = getattr(InferOptions(model_dir=options.model_dir), name)
            value = getattr(_parsed(name, value.strip()), name) if value.strip() else default
            self.answers.options = replace(options, **{name: value})
        else:
            given = {name: getattr(options, name) for name in TEXT_OPTIONS}
            shown = [f"{n} {shlex.quote(str(x))}" for n, x in given.items() if x not in (None, ())]
            _tell("\n".join(shown or ["Nothing is set."]))


def _tell(text: str) -> None:
    """Prints what is no answer: elsewhere than at a terminal, not among the answers."""
    print(text, file=sys.stdout if sys.stdin.isatty() else sys.stderr, flush=True)


class _Settings(CommandParser):
    """Reads an option as the command line does, and does not end the process."""

    def error(self, message: str) -> NoReturn:
        """Raises what is wrong."""
        raise ConfigError(message)


def _parsed(name: str, value: str) -> InferOptions:
    parser = _Settings(prog="", add_help=False)
    add_inference_arguments(parser)
    parser.set_defaults(model_dir="")
    return options_from(parser.parse_args([f"--{name}={value}"]), InferOptions)


def _typed() -> Iterator[str]:
    """Lines that are typed at a terminal, until Ctrl-D."""
    with contextlib.suppress(ImportError):  # Where it is there, `input` lets lines be edited.
        importlib.import_module("readline")
    while True:
        try:
            yield input(_PROMPT)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
        except UnicodeDecodeError as error:
            print(f"mtf: error: {_not_utf8(error)}", file=sys.stderr)


def _decoded(line: bytes) -> str:
    try:
        return line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(_not_utf8(error)) from error


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"A line is not UTF-8: byte {error.object[error.start]:#04x} at {error.start}."
