"""Tokens in groups, each of which is routed by itself."""

from __future__ import annotations

from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor

_OUTER = ("ensemble", "outer_batch")


def number_of_groups(tokens: int, group_size: int, parts: int = 1) -> int:
    """The least number of equal groups of about `group_size` tokens.

    Args:
        tokens: in a batch.
        group_size: a group has at least so many tokens, unless they do not divide or there are
            fewer.
        parts: must divide the number.

    Returns:
        A divisor of `tokens` and multiple of `parts`; without one, a divisor of `tokens`.
    """
    least = max(1, tokens // group_size)
    divisors = [n for n in range(least, tokens + 1) if tokens % n == 0]
    return next((n for n in divisors if n % parts == 0), divisors[0])


@dataclass(frozen=True)
class Groups:
    """How the positions of a batch fall into groups, rows one after another.

    Attributes:
        outer: dimensions that are left alone: members of an ensemble, outer batch.
        tokens: the dimensions that are merged and cut anew, such as batch and length.
        dims: what they become: the groups and the positions in a group.
    """

    outer: tuple[Dimension, ...]
    tokens: tuple[Dimension, ...]
    dims: tuple[Dimension, Dimension]

    @classmethod
    def of(
        cls,
        mesh: Mesh,
        positions: Shape,
        group_size: int,
        follow_mesh: bool,
        whole: bool,
        owner: str,
    ) -> Groups:
        """The groups of a batch.

        Args:
            mesh: where it runs.
            positions: the dimensions of a batch without its width, such as [batch, length].
            group_size: see `number_of_groups`.
            follow_mesh: whether there are more groups where the mesh splits the batch into more
                parts, as in the original; results then depend on the mesh.
            whole: whether every device may route all groups, if they do not divide.
            owner: whose groups they are, for messages.

        Raises:
            LayoutError: if the groups do not divide over the parts of the batch.
        """
        outer = tuple(d for d in positions if d.name in _OUTER)
        tokens = tuple(d for d in positions if d.name not in _OUTER)
        count, first = Shape(tokens).size, tokens[0]
        parts = mesh.splits(first)
        number = number_of_groups(count, group_size, parts if follow_mesh else 1)
        uneven = number % parts > 0
        if uneven and not whole:
            mesh.refuse_split(
                f"{owner}: {count} tokens make {number} groups of {count // number} "
                f"(group_size = {group_size}), which do not divide over the {parts} parts that "
                f"{first.name} is split into. Set group_size to {max(1, count // parts)}, or "
                "groups_follow_mesh = True to have as many groups as the mesh needs.",
            )
        name = f"{first.name}_unsplit" if uneven else first.name
        group = Dimension("group", count // number)
        return cls(outer, tokens, (Dimension(name, number), group))

    def split(self, x: Tensor) -> Tensor:
        """[..., batch, length, ...] to [..., groups, group, ...]."""
        return mtf.reshape(x, self._replaced(x.shape, self.tokens, self.dims))

    def join(self, x: Tensor) -> Tensor:
        """[..., groups, group, ...] to [..., batch, length, ...]."""
        return mtf.reshape(x, self._replaced(x.shape, self.dims, self.tokens))

    def _replaced(self, shape: Shape, old: tuple, new: tuple) -> Shape:
        rest = [d for d in shape if d not in (*self.outer, *old)]
        return Shape([*self.outer, *new, *rest])
