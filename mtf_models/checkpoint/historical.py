"""Names that variables had in older checkpoints of Mesh TensorFlow, and still have in some configs.

T5 1.0's releases call norms `layer_norm`, the last one of a stack `final_layer_norm`; later ones
`rms_norm`. Routers of mixtures of experts had other names before January 2021.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

_NORMS = dict.fromkeys(("layer_norm", "final_layer_norm"), "rms_norm")
_FORMER_ROUTERS = {"switch_gating": "rand_1_gating", "ntlb_gating": "switch_gating"}


def stored_names(wanted: Iterable[str], stored: Iterable[str]) -> dict[str, str]:
    """Under which name each variable is stored.

    A variable that is stored under its own name is taken from there. Else norms are looked for
    under any of their names, and routers under their former one, among what nobody else wants;
    slots have the names of their variables.

    Args:
        wanted: names of a model.
        stored: names of a checkpoint.

    Returns:
        Wanted name to stored name; what is stored under no name is left out.
    """
    wanted, stored = list(wanted), set(stored)
    free = stored.difference(wanted)
    norms = defaultdict(list)
    for name in sorted(free):
        norms[_renamed(name, _NORMS)].append(name)
    found = {}
    for name in wanted:
        candidates = norms[_renamed(name, _NORMS)]
        former = _renamed(name, _FORMER_ROUTERS)
        if name in stored:
            found[name] = name
        elif len(candidates) == 1:
            found[name] = candidates[0]
        elif former in free:
            found[name] = former
    return found


def _renamed(name: str, table: dict[str, str]) -> str:
    return "/".join(table.get(part, part) for part in name.split("/"))
