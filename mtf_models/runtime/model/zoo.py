"""The text of `mtf zoo`: what there is to choose from, and one of it in full."""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mtf_models import gin_files
from mtf_models.config import parse
from mtf_models.configurable import REQUIRED
from mtf_models.errors import ConfigError, MtfError, did_you_mean
from mtf_models.runtime.model.build import build_model
from mtf_models.runtime.model.catalogue import catalogue, parameters

_FOLDERS = ("models", "examples")
_NOT_ALONE = "needs other files"
_SENTENCE_END = re.compile(r"(?<! al)\.(?: |$)")  # "et al." ends none.


def overview(width: int | None = None) -> Iterator[str]:
    """Lines: configs, then classes and routings, each kind with a title.

    Args:
        width: of a line, where headlines go on in the next; None for lines of any length.
    """
    for folder in _FOLDERS:
        yield f"{folder}:"
        for path in sorted((gin_files.folder() / folder).glob("*.gin")):
            yield from _entry(path.stem, _headline(path), width)
        yield ""
    for kind, entries in catalogue().items():
        yield f"{kind}:"
        for name, target in entries.items():
            yield from _entry(name, _first_line(target), width)
        yield ""
    yield "mtf zoo NAME shows one of them: parameters of a config, or what gin can bind of a class."


def description(name: str) -> str:
    """One config, class or routing: what it does, and what gin can bind.

    Args:
        name: as in the overview; a config with or without its folder and ending.

    Raises:
        ConfigError: if there is none of this name, with the nearest.
    """
    entries = {n: target for kind in catalogue().values() for n, target in kind.items()}
    if name in entries:
        return _described(name, entries[name])
    configs = _configs()
    stem = name.removesuffix(".gin").rpartition("/")[2]
    if stem in configs:
        path = configs[stem]
        return f"{path.parent.name}/{path.name}: {_count(path)} parameters\n\n{path.read_text()}"
    known = [*entries, *configs]
    raise ConfigError(
        f"Nothing here is called {name!r}{did_you_mean(name, known)} `mtf zoo` lists what there is."
    )


def _entry(name: str, text: str, width: int | None) -> list[str]:
    first = f"  {name:<38} "
    if width is None or width < 2 * len(first):
        return [first + text]
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _configs() -> dict[str, Path]:
    root = gin_files.folder()
    return {path.stem: path for folder in _FOLDERS for path in (root / folder).glob("*.gin")}


def _described(name: str, target: Callable[..., Any]) -> str:
    lines = [name, "", inspect.getdoc(inspect.unwrap(target)) or ""]
    bound = parameters(target)
    if bound:
        lines += ["", "What gin can bind, and the defaults:"]
        lines += [f"  {name}.{parameter} = {_text(v)}" for parameter, v in bound.items()]
    return "\n".join(lines)


def _text(default: Any) -> str:
    if default is REQUIRED or default is inspect.Parameter.empty:
        return "(must be bound)"
    if callable(default):
        return f"@{default.__name__}"
    if isinstance(default, list | tuple) and any(map(callable, default)):
        return f"[{', '.join(map(_text, default))}]"
    return repr(default)


def _count(path: Path) -> str:
    """The parameters of a config; nothing is allocated.

    Blocks are alike, so that two of them say how many parameters any number has.
    """
    with _silent():
        try:
            config = parse([str(path)])
            depth = config.query("make_layer_stack.num_layers")
            shallow = depth == config.query("%num_layers") and depth > 2
            model = build_model([str(path)], ["num_layers = 2"] if shallow else [])
        except MtfError:
            return _NOT_ALONE
    count = model.parameters
    if shallow:
        block = [v.shape.size for name, v in model.variables.items() if "/block_001/" in name]
        count += (depth - 2) * sum(block)
    return f"{count:,}"


def _headline(path: Path) -> str:
    """The first sentence of the comment at the top."""
    comment = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# "))
    sentence = _SENTENCE_END.split(" ".join(comment), maxsplit=1)[0]
    return f"{sentence}." if sentence else ""


def _first_line(target: Callable[..., Any]) -> str:
    return (inspect.getdoc(inspect.unwrap(target)) or "").split("\n", 1)[0]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without the notices of each config, which commands that use one repeat."""
    log = logging.getLogger("mtf_models")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
