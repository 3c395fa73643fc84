"""How a split goes from one axis of a value to another, in pins that DTensor gets right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from mtf_models.mesh.layout import Layout

Pin = Callable[[tf.Tensor, Layout], tf.Tensor]


def moved(value: tf.Tensor, before: Layout, after: Layout, pin: Pin) -> tf.Tensor:
    """Lays a value out anew where a split may go from one of its axes to another.

    The all-to-all of DTensor is wrong, in silence, for values of more than three axes neither of
    whose two is the first. There the axis that was split is brought to the front for it. It takes
    no bool and no small integers.

    Args:
        value: any tensor.
        before: its layout.
        after: the layout that it is to have.
        pin: lays a value out.
    """
    if not (value.dtype.is_floating or value.dtype in (tf.int32, tf.int64)):
        wide = tf.cast(value, tf.int32 if value.dtype.size < 4 else tf.int64)
        return pin(tf.cast(moved(wide, before, after, pin), value.dtype), after)
    places = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    if len(before) < 4 or len(places) != 2 or 0 in places:
        return pin(value, after)
    order = [places[0], *(i for i in range(len(before)) if i != places[0])]
    value = pin(tf.transpose(value, order), tuple(before[i] for i in order))
    # Twice, or in the gradient the old layout would spread back into the transposition.
    for _ in range(2):
        value = pin(value, tuple(after[i] for i in order))
    return pin(tf.transpose(value, np.argsort(order).tolist()), after)
