"""The parser of `mtf`: flags in either spelling, and the nearest name for one that is unknown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NoReturn

from mtf_models.errors import did_you_mean


class CommandParser(argparse.ArgumentParser):
    """A parser that takes no abbreviated flags and leaves out what was not given."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, argument_default=argparse.SUPPRESS, **settings)

    def error(self, message: str) -> NoReturn:
        """Ends the process with exit status 2 and one paragraph."""
        print(f"{self.prog}: error: {message}\nSee {self.prog} --help.", file=sys.stderr)
        raise SystemExit(2)

    @property
    def flags(self) -> Collection[str]:
        """The flags that it takes."""
        return self._option_string_actions  # argparse has no public list of them.

    def with_actions(self) -> Iterator[CommandParser]:
        """Itself, and the parsers of the actions that the command may have."""
        yield self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    yield from parser.with_actions()

    def refuse_unknown_flags(self, words: Sequence[str]) -> None:
        """Ends the process if any flag is unknown, with the nearest names of all of them.

        It comes before parsing proper, which would first complain of required flags that are
        missing because they were misspelt.
        """
        known = {flag for parser in self.with_actions() for flag in parser.flags}
        flags = [word.split("=")[0] for word in words if word.startswith("--")]
        faults = [f"unknown flag {f}{did_you_mean(f, known)}" for f in flags if f not in known]
        if faults:
            self.error(" ".join(faults))


def with_underscores(words: Sequence[str]) -> list[str]:
    """Spells flags as they are declared: --strict-mesh=x as --strict_mesh=x."""
    return [_spell(word) if word.startswith("--") else word for word in words]


def _spell(flag: str) -> str:
    name, equals, value = flag.partition("=")
    return "--" + name[2:].replace("-", "_") + equals + value
