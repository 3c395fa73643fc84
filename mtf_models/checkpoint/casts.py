"""Changes of dtype between a model and its checkpoints, counted so that none is silent."""

from __future__ import annotations

import logging

import numpy as np
import tensorflow as tf

from mtf_models.errors import CheckpointError

_log = logging.getLogger("mtf_models")

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


class Casts:
    """Casts values, rounding to nearest even, and remembers which variables it touched."""

    def __init__(self) -> None:
        self.variables: dict[tuple[str, str], set[str]] = {}

    def apply(self, name: str, value: np.ndarray, dtype: tf.DType) -> np.ndarray:
        """A value in `dtype`.

        Args:
            name: the variable that it is a value, or a part, of.
            value: any shape.
            dtype: what is wanted.

        Raises:
            CheckpointError: if a value is too large for `dtype`, or a whole number would change.
        """
        wanted = np.dtype(dtype.as_numpy_dtype)
        if value.dtype == wanted:
            return value
        with np.errstate(over="ignore"):
            cast = value.astype(wanted)
        kept = (np.isfinite(cast), np.isfinite(value)) if dtype.is_floating else (cast, value)
        if not np.array_equal(*kept):
            largest = np.max(np.abs(value[np.isfinite(value)].astype(np.float64)))
            raise CheckpointError(
                f"Variable {name} has values up to {largest:g}, which {dtype.name} cannot hold. "
                f"Keep it in {value.dtype.name}."
            )
        self.variables.setdefault((value.dtype.name, dtype.name), set()).add(name)
        return cast

    def report(self) -> None:
        """Logs one line for each pair of dtypes."""
        for (found, wanted), names in self.variables.items():
            short = [_SHORT.get(dtype, dtype) for dtype in (found, wanted)]
            _log.info("cast %s→%s: %d tensors", *short, len(names))
