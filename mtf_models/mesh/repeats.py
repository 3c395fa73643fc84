"""Parts of a program that an abstract pass goes through once, since others are like them."""

from __future__ import annotations

from collections.abc import Sequence

from mtf_models.mesh import scopes
from mtf_models.mesh.engines.recorder import Repeat
from mtf_models.mesh.layout import Fault
from mtf_models.mesh.mesh import Mesh
from mtf_models.mesh.variable import specify_again


def stands_for(mesh: Mesh, name: str, others: Sequence[str], follower: str) -> None:
    """Says that what ran in the scope `name` stands for the same in other scopes, left out.

    They would follow it one after the other, each on what the one before gave. Their variables are
    specified, what does not fit the mesh is reported of them too, and a recording counts them.

    Args:
        mesh: an abstract one.
        name: the scope, below the current one.
        others: those of what is left out, in order.
        follower: that of what runs after them, and is alike too.
    """
    copies = [scopes.full_name(other) for other in others]
    repeat = Repeat(scopes.full_name(name), copies, scopes.full_name(follower))
    for copy in repeat.copies:
        # Also of what is known to repeat: stacks that share a scope have variables of their own.
        specify_again(repeat.scope, copy)
    if repeat in mesh.engine.repeats:
        return
    mesh.engine.repeats.append(repeat)
    scope = f"{repeat.scope}/"
    found = [f for f in mesh.engine.faults if any(x.startswith(scope) for x in f.tensors)]
    for copy in repeat.copies:
        mesh.engine.faults += [_renamed(fault, scope, f"{copy}/") for fault in found]


def _renamed(fault: Fault, scope: str, copy: str) -> Fault:
    return fault._replace(tensors=tuple(x.replace(scope, copy, 1) for x in fault.tensors))
