"""The known names that are nearest to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name among very many known ones.

    Args:
        name: what was written: a path, or a selector with its modules.
        known: what could have been written; its last component is what is compared, too.

    Returns:
        "; did you mean a, b or c?", or nothing where no known name is near.
    """
    names = sorted(set(known))
    last_to_name: dict[str, list[str]] = {}
    for candidate in names:
        last_to_name.setdefault(_last(candidate), []).append(candidate)
    found = difflib.get_close_matches(name, names, n=3, cutoff=0.75)
    for last in difflib.get_close_matches(_last(name), last_to_name, n=3, cutoff=0.7):
        found.extend(last_to_name[last])
    *others, final = list(dict.fromkeys(found))[:3] or [""]
    if not final:
        return ""
    return f"; did you mean {', '.join(others) + ' or ' if others else ''}{final}?"


def _last(name: str) -> str:
    """The file name of a path, the last component of a selector."""
    stem = name.removesuffix(".gin")
    return stem.rpartition("/")[2] if stem != name else stem.rpartition(".")[2]
