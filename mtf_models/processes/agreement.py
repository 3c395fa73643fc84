"""Whether all processes are about to do the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from mtf_models.errors import ConfigError
from mtf_models.processes.group import Group

_SHOWN = 8


def check_same(group: Group, values: Mapping[str, str]) -> None:
    """Compares hashes of what must be the same everywhere.

    Args:
        group: of the processes.
        values: name to text, such as the lines of a config.

    Raises:
        ConfigError: in every process, saying what differs from process 0, and where.
    """
    hashes = {n: hashlib.sha256(text.encode()).hexdigest() for n, text in values.items()}
    found = group.gather("comparing", hashes)
    differing = sorted({n for others in found for n in hashes if others.get(n) != found[0].get(n)})
    if not differing:
        return
    texts = group.gather("what differs", {name: values[name] for name in differing})
    lines = [
        f"  {name}: {what}"
        for name in differing
        for index in range(1, group.count)
        if texts[index][name] != texts[0][name]
        for what in _differences(group, name, texts, index)
    ]
    more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    raise ConfigError(
        "\n".join(
            ["The processes are not about to do the same:", *lines[:_SHOWN], *more]
            + ["Start all of them with the same command, files and versions."]
        )
    )


def _differences(group: Group, name: str, texts: list[Mapping[str, str]], index: int) -> list[str]:
    """The lines that a process has and process 0 has not, and the other way round."""
    first, other = (texts[i][name].splitlines() for i in (0, index))
    missing = [f"{line} in {group.cluster.name(0)}" for line in first if line not in other]
    added = [f"{line} in {group.cluster.name(index)}" for line in other if line not in first]
    return [*missing, *added] or [f"the order of lines in {group.cluster.name(index)}"]
