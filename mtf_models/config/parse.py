"""Gin files, bindings and flags parsed into a `Config`."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mtf_models.config import legacy, search
from mtf_models.config.check import check
from mtf_models.config.configuration import Config
from mtf_models.config.names import import_module
from mtf_models.config.overrides import bindings_of
from mtf_models.config.search import GinFile
from mtf_models.config.statements import Binding, Import, Include, Origin, read
from mtf_models.errors import ConfigError

_logger = logging.getLogger("mtf_models.config")


class GinText(NamedTuple):
    """Gin text that stands in the place of a file.

    Attributes:
        text: statements, a line each; they may include files.
        source: what to call it in messages.
    """

    text: str
    source: str


GinSource = str | GinText
"""The path of a gin file, or text in its place."""


def parse(
    gin_files: Sequence[GinSource] = (),
    gin_params: Sequence[str] = (),
    search_paths: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """Parses our defaults, then files, then single bindings, then flags; later ones win.

    Whatever is to be bound must be registered before: import the layers and the runtime first.

    Args:
        gin_files: paths as `search.find` looks for them, or texts in their place; files of the
            original as they are.
        gin_params: gin text, mostly one binding each.
        search_paths: folders to look for files in, after the working directory.
        overrides: flags to values, see `overrides.bindings_of`.

    Returns:
        The configuration. What was recognised and dropped is in its notices, and is logged once.

    Raises:
        ConfigError: listing every fault of every file and binding.
    """
    sources = _Sources(tuple(search_paths))
    defaults = sources.take_file(search.DEFAULTS)
    for given in gin_files:
        sources.take_file(given) if isinstance(given, str) else sources.take_text(*given)
    for number, text in enumerate(gin_params, start=1):
        sources.take_text(text, f"--gin_param {number}")
    sources.bindings.extend(bindings_of(overrides or {}))
    return sources.config(quiet=defaults, params=tuple(gin_params))


def parse_text(text: str, source: str = "the text") -> Config:
    """Parses a text that stands for itself, such as `Config.text()`: no defaults, no flags.

    Args:
        text: gin text.
        source: what to call it in messages.

    Returns:
        The configuration.

    Raises:
        ConfigError: listing every fault.
    """
    sources = _Sources(())
    sources.take_text(text, source)
    return sources.config()


@dataclass
class _Sources:
    """Everything read so far, with what was wrong with it."""

    folders: tuple[str, ...]
    bindings: list[Binding] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def take_file(self, name: str) -> str:
        """Reads a file that was asked for by name; returns where it was found."""
        try:
            found = search.find(name, self.folders)
        except ConfigError as error:
            self.faults.append(str(error))
            return ""
        self._take(found.text, found.path, (found,))
        return found.path

    def take_text(self, text: str, source: str) -> None:
        """Reads a text that is in no file."""
        self._take(text, source, ())

    def _take(self, text: str, source: str, within: tuple[GinFile, ...]) -> None:
        if within:
            self.files.append(source)
        try:
            for statement in read(text, source):
                match statement:
                    case Binding():
                        self.bindings.append(statement)
                    case Import(module, origin):
                        self._import(module, origin)
                    case Include(path, origin):
                        self._include(path, origin, within)
        except ConfigError as error:
            self.faults.append(str(error))

    def _include(self, name: str, origin: Origin, within: tuple[GinFile, ...]) -> None:
        try:
            found = search.find(name, self.folders, including=within[-1] if within else None)
        except ConfigError as error:
            self.faults.append(f"{origin}: {error}")
            return
        if any(found.path == outer.path for outer in within):
            self.faults.append(f"{origin}: {name!r} includes itself")
            return
        self._take(found.text, found.path, (*within, found))

    def _import(self, module: str, origin: Origin) -> None:
        if any(module == dead or module.startswith(f"{dead}.") for dead in legacy.DEAD_MODULES):
            return
        if module.partition(".")[0] in ("t5", "seqio"):
            self.imports.append(module)
            return
        try:
            if module.startswith("__gin__."):
                raise ConfigError(
                    "dynamic registration is not supported; import the module instead"
                )
            import_module(module)
        except ConfigError as error:
            self.faults.append(f"{origin}: {error}")

    def config(self, quiet: str = "", params: tuple[str, ...] = ()) -> Config:
        """What the sources come to.

        Raises:
            ConfigError: if anything was wrong with any of them.
        """
        if self.faults:
            # What could not be read may define what the rest needs: more would be guesses.
            raise ConfigError("\n".join(self.faults))
        checked = check(self.bindings, quiet)
        for notice in checked.notices:
            _say(notice)
        return Config(
            checked.bindings,
            checked.macros,
            files=tuple(self.files),
            params=params,
            imports=tuple(dict.fromkeys(self.imports)),
            notices=checked.notices,
        )


@functools.cache
def _say(notice: str) -> None:
    """Logs a line, once in a process."""
    _logger.warning(notice)
