"""Micro-batches: one training step computed in several smaller parts, to need less memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from mtf_models.configurable import configurable
from mtf_models.errors import ShapeError
from mtf_models.mesh import (
    Dimension,
    Mesh,
    Tensor,
    cast,
    constant,
    equal,
    gather,
    less,
    mtf_range,
    replace_dimensions,
    where,
    while_loop,
    zeros,
)

Tensors = dict[str, Tensor]
StepFunction = Callable[[Tensors, Tensor], tuple[Tensors, Tensors]]
"""Takes the features of one micro-batch and its index, an int32 scalar; returns the gradients by
variable name and other outputs by name."""

_MICROBATCH = "microbatch"


@configurable(module="mesh_tensorflow.transformer.utils", name="serialize_num_microbatches")
def num_microbatches(
    batch_size: int,
    sequence_length: int | Mapping[str, int],
    splits: int,
    tokens_per_microbatch_per_replica: int | None = None,
) -> int:
    """Into how many micro-batches a batch is divided.

    Args:
        batch_size: the number of sequences in the whole batch.
        sequence_length: the length of a sequence, or that of each feature: the longest counts.
        splits: into how many parts the batch dimension is split over the mesh.
        tokens_per_microbatch_per_replica: the largest number of tokens that one part of the mesh
            computes at once, but at least one sequence; None is the whole batch at once.

    Raises:
        ShapeError: if the batch does not divide over the mesh.
    """
    if batch_size % splits:
        raise ShapeError(
            f"A batch of {batch_size} sequences does not divide over the {splits} parts that the "
            f"mesh splits it into; take a multiple of {splits}."
        )
    if not tokens_per_microbatch_per_replica:
        return 1
    lengths = (
        sequence_length.values() if isinstance(sequence_length, Mapping) else [sequence_length]
    )
    rows = batch_size // splits
    largest = max(1, tokens_per_microbatch_per_replica // max(lengths))
    return min(n for n in range(1, rows + 1) if rows % n == 0 and rows // n <= largest)


def in_microbatches(
    features: Tensors, step_fn: StepFunction, batch_dim: Dimension, num_splits: int
) -> tuple[Tensors, Tensors]:
    """Computes gradients in `num_splits` micro-batches, one after the other in a loop.

    Micro-batch m takes the rows whose number leaves the rest m when divided by `num_splits`, so
    that each part of a mesh keeps its rows. With one micro-batch `step_fn` is called with the
    features as they are; with more it is also traced once to learn what it returns.

    Args:
        features: tensors by name; those without `batch_dim` go to every micro-batch whole.
        step_fn: computes losses and gradients of one micro-batch, and scales them so that the sum
            over all is what is wanted. It must change nothing outside itself, and draw its random
            numbers from a stream seeded by the index too.
        batch_dim: the dimension to divide; a micro-batch has one of the same name.
        num_splits: the number of micro-batches.

    Returns:
        The gradients, summed over the micro-batches, and the outputs: those with the batch
        dimension with all rows in their places, the others summed. Sums of bfloat16 and float16
        are float32.

    Raises:
        ShapeError: if `num_splits` does not divide the batch.
    """
    if num_splits < 1 or batch_dim.size % num_splits:
        raise ShapeError(
            f"{batch_dim} cannot be divided into {num_splits} micro-batches; take a number that "
            "divides it."
        )
    mesh = next(iter(features.values())).mesh
    if num_splits == 1:
        return step_fn(features, constant(mesh, 0, dtype=tf.int32))
    return _Loop(mesh, features, step_fn, batch_dim, num_splits).run()


class _Loop:
    """The loop over micro-batches: what goes in, and how what comes out is put together."""

    def __init__(
        self,
        mesh: Mesh,
        features: Tensors,
        step_fn: StepFunction,
        batch_dim: Dimension,
        num_splits: int,
    ) -> None:
        self.mesh = mesh
        self.step_fn = step_fn
        self.batch_dim = batch_dim
        self.rows = Dimension(batch_dim.name, batch_dim.size // num_splits)
        self.part = Dimension(_MICROBATCH, num_splits)
        self.features = {
            name: replace_dimensions(x, batch_dim, [self.rows, self.part])
            if batch_dim in x.shape
            else x
            for name, x in features.items()
        }

    def run(self) -> tuple[Tensors, Tensors]:
        grads, outputs = self._traced()
        totals = [self._empty(x) for x in [*grads.values(), *outputs.values()]]
        first = constant(self.mesh, 0, dtype=tf.int32)
        _, *totals = while_loop(
            lambda index, *_: less(index, self.part.size), self._body, [first, *totals]
        )
        totals = [self._joined(x) for x in totals]
        return (
            dict(zip(grads, totals, strict=False)),
            dict(zip(outputs, totals[len(grads) :], strict=True)),
        )

    def _body(self, index: Tensor, *totals: Tensor) -> list[Tensor]:
        grads, outputs = self._step(index)
        found = [*grads.values(), *outputs.values()]
        added = [self._add(t, x, index) for t, x in zip(totals, found, strict=True)]
        return [index + 1, *added]

    def _step(self, index: Tensor) -> tuple[Tensors, Tensors]:
        selected = {
            name: gather(x, index, self.part) if self.part in x.shape else x
            for name, x in self.features.items()
        }
        return self.step_fn(selected, index)

    def _traced(self) -> tuple[Tensors, Tensors]:
        """What a micro-batch returns, as symbols: their names, shapes and dtypes are wanted."""
        found = []

        def trace() -> None:
            found.append(self._step(constant(self.mesh, 0, dtype=tf.int32)))

        tf.function(trace, autograph=False).get_concrete_function()
        return found[0]

    def _empty(self, like: Tensor) -> Tensor:
        """The state before the first micro-batch for an output."""
        if self.rows in like.shape:
            shape = replace_dimensions(like.shape, self.rows, [self.rows, self.part])
            return cast(zeros(self.mesh, shape), like.dtype)
        narrow = like.dtype in (tf.bfloat16, tf.float16)
        return zeros(self.mesh, like.shape, tf.float32 if narrow else like.dtype)

    def _add(self, total: Tensor, found: Tensor, index: Tensor) -> Tensor:
        """The state of an output with that of one micro-batch added or put in its rows."""
        if self.part not in total.shape:
            return total + cast(found, total.dtype)
        here = equal(mtf_range(self.mesh, self.part), index)
        return where(here, found, total, output_shape=total.shape)

    def _joined(self, total: Tensor) -> Tensor:
        if self.part not in total.shape:
            return total
        return replace_dimensions(total, [self.rows, self.part], self.batch_dim)
