"""Rows of a batch that become several hypotheses each: repeated, grouped, chosen among."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.decode.step import Caches
from mtf_models.mesh import Dimension, Shape, Tensor

BATCH, BEAM = "batch", "beam"


def beam_dim(size: int) -> Dimension:
    """The dimension of the hypotheses of a row."""
    return Dimension(BEAM, size)


def spread(x: Tensor, times: int) -> Tensor:
    """[batch, ...] to [batch, beam, ...], every hypothesis the same."""
    batch, *rest = x.shape.dims
    return mtf.broadcast(x, Shape([batch, beam_dim(times), *rest]))


def merged(x: Tensor) -> Tensor:
    """[..., batch, beam, ...] to [..., batch * beam, ...], the hypotheses of a row side by side."""
    place = x.shape.dims.index(x.shape.get_dim_by_name(BATCH))
    batch, beam = x.shape.dims[place : place + 2]
    return _with_dims(x, place, 2, [Dimension(BATCH, batch.size * beam.size)])


def grouped(x: Tensor, beam: Dimension) -> Tensor:
    """[..., batch * beam, ...] to [..., batch, beam, ...]."""
    batch = x.shape.get_dim_by_name(BATCH)
    rows = Dimension(BATCH, batch.size // beam.size)
    return _with_dims(x, x.shape.dims.index(batch), 1, [rows, beam])


def repeated(x: Tensor, times: int) -> Tensor:
    """[batch, ...] to [batch * times, ...], each row `times` times side by side.

    The batch may be any dimension of `x`; a tensor without it is the same for all rows.
    """
    if times == 1 or not x.shape.has(BATCH):
        return x
    shape = x.shape.resize_dimension(BATCH, times * x.shape.get_dim_by_name(BATCH).size)
    return mtf.transpose(merged(spread(_batch_first(x), times)), shape)


def chosen(x: Tensor, index: Tensor, beam: Dimension) -> Tensor:
    """Some of the hypotheses of each row.

    Args:
        x: [batch, beam, ...].
        index: [batch, chosen] int32, all among the beam.
        beam: the dimension of the hypotheses in `x`.

    Returns:
        [batch, chosen, ...].
    """
    if index.shape.dims[-1].name == beam.name:  # A name has one size in an operation.
        x = mtf.rename_dimension(x, beam.name, f"{beam.name}_before")
        beam = Dimension(f"{beam.name}_before", beam.size)
    return mtf.gather(x, index, beam, in_range=True)


def reordered(caches: Caches, parents: Tensor) -> Caches:
    """The caches of hypotheses whose parents were at other places of their row.

    Args:
        caches: each [batch * beam, ...], or the same for all rows.
        parents: [batch, beam] int32.
    """
    return {name: _of_parents(x, parents) for name, x in caches.items()}


def first_caches(made: Caches, read: Caches, times: int) -> Caches:
    """The caches that a loop begins with.

    Args:
        made: by a step, for their names and shapes.
        read: by a prefill, or empty.
        times: how many hypotheses each row gets.
    """
    first = {
        n: mtf.transpose(read[n], x.shape) if n in read else mtf.zeros_like(x)
        for n, x in made.items()
    }
    return {n: repeated(x, times) for n, x in first.items()}


def kept(stays: Tensor, old: Caches, new: Caches) -> Caches:
    """New caches, but the old ones of some rows.

    Args:
        stays: [batch] bool, which rows.
        old: caches by name.
        new: of the same names.
    """
    return {
        name: mtf.where(stays, old[name], x, output_shape=x.shape) if x.shape.has(BATCH) else x
        for name, x in new.items()
    }


def _of_parents(x: Tensor, parents: Tensor) -> Tensor:
    if not x.shape.has(BATCH):
        return x
    beam = parents.shape.dims[-1]
    return mtf.transpose(merged(chosen(grouped(_batch_first(x), beam), parents, beam)), x.shape)


def _with_dims(x: Tensor, place: int, count: int, dims: list[Dimension]) -> Tensor:
    """A tensor of the same values with `dims` for `count` of its dimensions, from a place on."""
    before = x.shape.dims
    return mtf.reshape(x, Shape([*before[:place], *dims, *before[place + count :]]))


def _batch_first(x: Tensor) -> Tensor:
    batch = x.shape.get_dim_by_name(BATCH)
    return mtf.transpose(x, Shape([batch, *(d for d in x.shape if d != batch)]))
