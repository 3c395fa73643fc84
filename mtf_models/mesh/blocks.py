"""A function of a few positions at a time, one block after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from mtf_models.errors import require_positive
from mtf_models.mesh import random as mesh_random
from mtf_models.mesh import scopes
from mtf_models.mesh.dimension import Dimension, DimensionLike, convert_to_dimension
from mtf_models.mesh.elementwise import cast, stop_gradient, to_float, zeros
from mtf_models.mesh.gradient import after, compute_again, named_alike, result_of, slopes
from mtf_models.mesh.joining import concat
from mtf_models.mesh.own_gradient import Backward, with_own_gradient
from mtf_models.mesh.slicing import slice as slice_of
from mtf_models.mesh.tensor import Tensor, make
from mtf_models.mesh.variable import recording_uses


def in_blocks(
    fn: Callable[..., Sequence[Tensor]],
    rows: Sequence[Tensor],
    whole: Sequence[Tensor],
    dim: DimensionLike,
    size: int,
) -> list[Tensor]:
    """The results of `fn` for `size` entries of `dim` at a time, joined.

    A block begins when the one before it is done, and none of its intermediate values are kept: as
    in `recompute_grad` they are computed again for the gradient, with the same random numbers. So
    those of one block are in memory at a time, forward and backward. What the blocks add to the
    derivative of a tensor that all of them use is added up in float32 at least. Variables that
    `fn` reads get their derivatives; of other tensors only `rows` and `whole` do.

    Args:
        fn: takes the number of the first entry, the block's part of each of `rows`, and `whole`;
            returns tensors that have the block's part of `dim`.
        rows: tensors that have `dim`.
        whole: tensors that each block is given entirely.
        dim: what is cut into blocks.
        size: of a block, which is laid out like all; the last one may be smaller.
    """
    require_positive("in_blocks", size=size)
    return _Blocks(fn, list(rows), list(whole), convert_to_dimension(dim), size).compute()


@dataclass
class _Blocks:
    """See `in_blocks`.

    Attributes:
        drawn: for each block, how many random numbers its stream had given before.
    """

    fn: Callable[..., Sequence[Tensor]]
    rows: list[Tensor]
    whole: list[Tensor]
    dim: Dimension
    size: int
    drawn: list[int] = field(default_factory=list)

    def compute(self) -> list[Tensor]:
        """The joined results, with the derivatives of `gradients`."""
        self.stream = mesh_random.current_stream()
        self.scope, self.stacked = scopes.current_scope(), scopes.stacked_dims()
        # Without gradients here, or a tape around all this would keep the values of every block.
        with recording_uses() as self.uses:
            outputs = self._joined(self._forward())
        if not scopes.is_derived():
            return outputs
        mesh = outputs[0].mesh

        @with_own_gradient
        def replay(*values: tf.Tensor) -> tuple[list[tf.Tensor], Backward]:
            def backward(*dys: tf.Tensor) -> list[tf.Tensor | None]:
                with mesh.composing_backward("in_blocks", self.scope):
                    return self._gradients(values, outputs, dys)

            return [tf.identity(x.value) for x in outputs], backward

        inputs, shapes = [*self.rows, *self.whole], [y.shape for y in outputs]
        with mesh.composing("in_blocks", [x.shape for x in inputs], shapes):
            found = replay(*[x.value for x in inputs], *self.uses.values.values())
            return [result_of(Tensor(mesh, s, v)) for s, v in zip(shapes, found, strict=True)]

    def _forward(self) -> list[list[Tensor]]:
        """The results of each block."""
        inputs = [stop_gradient(x) for x in [*self.rows, *self.whole]]
        found: list[list[Tensor]] = []
        for begin in range(0, self.dim.size, self.size):
            self.drawn.append(self.stream.drawn if self.stream else 0)
            before = [x.value for x in found[-1]] if found else []
            with after(before):
                late = named_alike(inputs, [tf.identity(x.value) for x in inputs])
                split = len(self.rows)
                found.append(list(self.fn(begin, *self._cut(late[:split], begin), *late[split:])))
        return found

    def _gradients(
        self, values: Sequence[tf.Tensor], outputs: Sequence[Tensor], dys: Sequence[tf.Tensor]
    ) -> list[tf.Tensor | None]:
        """The derivatives by `values`: those of rows, of whole tensors and of variables."""
        mesh, split, done = outputs[0].mesh, len(self.rows), list(dys)
        given = [make(mesh, dy, y.shape) for dy, y in zip(dys, outputs, strict=True)]
        variables = [self.uses.store.variables[name].shape for name in self.uses.values]
        of_rows: list[list[Tensor | None]] = []
        sums: list[Tensor | None] = [None] * (len(values) - split)
        for begin, drawn in zip(range(0, self.dim.size, self.size), self.drawn, strict=True):
            with after(done):
                inputs, found = self._slopes_of_block(begin, drawn, values, given)
            shapes = [x.shape for x in inputs] + variables
            named = [
                g if g is None else make(mesh, g, shape)
                for g, shape in zip(found, shapes, strict=True)
            ]
            of_rows.append(named[:split])
            sums = [_added(a, b) for a, b in zip(sums, named[split:], strict=True)]
            done = [x.value for x in [*named[:split], *sums] if x is not None]
        joined = [*self._joined(of_rows), *sums]
        return [
            None if x is None else cast(x, value.dtype).value
            for x, value in zip(joined, values, strict=True)
        ]

    def _slopes_of_block(
        self, begin: int, drawn: int, values: Sequence[tf.Tensor], given: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[tf.Tensor | None]]:
        """What the block takes, and the derivatives by it and by the variables."""
        late = [tf.identity(value) for value in values]
        inputs = self._cut(named_alike(self.rows, late), begin)
        inputs += named_alike(self.whole, late[len(self.rows) :])
        sources = [x.value for x in inputs] + late[len(inputs) :]
        with tf.GradientTape() as tape, mesh_random.replayed(self.stream, drawn):
            tape.watch([x for x in sources if x.dtype.is_floating])
            with scopes.stacked_variables(self.stacked):
                fn = functools.partial(self.fn, begin)
                again = compute_again(fn, inputs, sources, self.uses, self.scope)
        wanted = [dy.value for dy in self._cut(given, begin)]
        return inputs, slopes(tape, [y.value for y in again], sources, wanted)

    def _cut(self, tensors: Sequence[Tensor], begin: int) -> list[Tensor]:
        return [slice_of(x, begin, self._count(begin), self.dim.name) for x in tensors]

    def _count(self, begin: int) -> int:
        """How many entries the block has that begins there."""
        return min(self.size, self.dim.size - begin)

    def _joined(self, blocks: Sequence[Sequence[Tensor | None]]) -> list[Tensor | None]:
        """Each result of all blocks in one; None where no block has it."""
        return [self._whole(parts) for parts in zip(*blocks, strict=True)]

    def _whole(self, parts: Sequence[Tensor | None]) -> Tensor | None:
        """The parts of the blocks in one: zeros for those that are None, if not all are."""
        known = next((part for part in parts if part is not None), None)
        if known is None:
            return None
        name, begins = self.dim.name, range(0, self.dim.size, self.size)
        shapes = [known.shape.resize_dimension(name, self._count(begin)) for begin in begins]
        pairs = zip(parts, shapes, strict=True)
        return concat(
            [zeros(known.mesh, s, known.dtype) if x is None else x for x, s in pairs], name
        )


def _added(total: Tensor | None, part: Tensor | None) -> Tensor | None:
    """A sum that loses nothing of narrow parts."""
    if part is None:
        return total
    wide = to_float(part) if part.dtype.size < 4 else part
    return wide if total is None else total + wide
