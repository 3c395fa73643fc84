"""A training step in micro-batches, written as one model function."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from mtf_models.errors import ShapeError
from mtf_models.mesh import Dimension, Tensor, VariableStore, zeros
from mtf_models.mesh.tensor import make
from mtf_models.mesh.variable import store_in_use
from mtf_models.optimize.microbatch import Tensors, in_microbatches

_LOSS = "loss"


def serialize_training_step(
    features: Tensors,
    model_fn: Callable[[Tensors], Tensors],
    batch_dim: Dimension,
    num_splits: int,
) -> tuple[Tensors, Tensors]:
    """The gradients of a loss that is summed over micro-batches, computed one after the other.

    Call it where variables have values: under `VariableStore.eager()`, or `serving(table)`.

    Args:
        features: tensors by name; those without `batch_dim` go to every micro-batch whole.
        model_fn: takes the features of a micro-batch, returns tensors by name, a scalar "loss"
            among them. It reads its variables by `mtf.get_variable`.
        batch_dim: the dimension to divide; micro-batch m takes the rows whose number leaves the
            rest m when divided by `num_splits`.
        num_splits: the number of micro-batches.

    Returns:
        The gradients of all trainable variables, summed, by name; and what `model_fn` returned:
        what has the batch dimension with all rows in their places, the rest summed.

    Raises:
        ShapeError: if `num_splits` does not divide the batch, there is no scalar "loss", or it
            does not depend on some trainable variable.
    """
    store, table, makes_variables = store_in_use("serialize_training_step")
    if makes_variables:
        _collect(store, model_fn, features)
        table = store.read()
    if table is None:
        outputs = model_fn(features)
        trainable = [v for v in store.variables.values() if v.trainable]
        mesh = _loss(outputs).mesh
        return {v.name: zeros(mesh, v.shape, v.dtype) for v in trainable}, outputs

    def step(part: Tensors, _: Tensor) -> tuple[Tensors, Tensors]:
        names = [n for n in table if store.variables[n].trainable]
        # Inside of the loop, or its tape would not know them.
        inside = {n: tf.identity(value) for n, value in table.items()}
        with tf.GradientTape() as tape, store.serving(inside):
            tape.watch([inside[n] for n in names])
            outputs = model_fn(part)
            loss = _loss(outputs)
        found = tape.gradient(loss.value, [inside[n] for n in names])
        unused = [n for n, g in zip(names, found, strict=True) if g is None]
        if unused:
            raise ShapeError(
                f"The loss does not depend on {', '.join(unused)}; make them untrainable, or use "
                "them."
            )
        grads = {
            n: make(loss.mesh, tf.convert_to_tensor(g), store.variables[n].shape)
            for n, g in zip(names, found, strict=True)
        }
        return grads, outputs

    return in_microbatches(features, step, batch_dim, num_splits)


def _collect(
    store: VariableStore, model_fn: Callable[[Tensors], Tensors], features: Tensors
) -> None:
    """Notes the variables of a model: inside of the loop none can be made."""
    with store.collecting():
        nowhere = {n: zeros(x.mesh.abstract(), x.shape, x.dtype) for n, x in features.items()}
        model_fn(nowhere)


def _loss(outputs: Tensors) -> Tensor:
    loss = outputs.get(_LOSS) if isinstance(outputs, dict) else None
    if loss is None or loss.shape.ndims:
        found = f"{outputs}" if loss is None else f"a loss of {loss.shape}"
        raise ShapeError(f'model_fn must return a mapping with a scalar "loss"; found {found}.')
    return loss
