"""Which rows of the batches a process reads, and whole batches in which they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mtf_models.mesh import Dimension, Mesh


class OwnRows:
    """The rows that the devices of this process need, of a mesh that may span several processes.

    Where that is no part such as the data can be given out in, it is all of them.

    Args:
        mesh: where the model runs.
        rows: in a batch.

    Attributes:
        process: which part of the rows is read here, of how many, as `training_batches` takes it.
    """

    def __init__(self, mesh: Mesh, rows: int) -> None:
        own = mesh.own_places(Dimension("batch", rows))
        first, each = own[0], len(own)
        parts = own == [*range(first, first + each)] and rows % each == first % each == 0
        self.process = (first // each, rows // each) if parts else (0, 1)
        self._rows = rows
        self._own = slice(first, first + each) if parts else slice(0, rows)

    def in_whole(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """A batch with the rows of this process in their places, and zeros in all others.

        Args:
            features: name to the rows of this process, [rows, length].
        """
        if self.process[1] == 1:
            return dict(features)
        batch = {n: np.zeros([self._rows, *x.shape[1:]], x.dtype) for n, x in features.items()}
        for name, rows in features.items():
            batch[name][self._own] = rows
        return batch
