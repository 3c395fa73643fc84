"""What decoding asks of a model: the log-probabilities of one position after another."""

from __future__ import annotations

import abc

from mtf_models.mesh import Tensor
from mtf_models.mesh.size import Size

Caches = dict[str, Tensor]
"""What a step hands on to the next, by name; each tensor has the dimension `batch`."""


class Step(abc.ABC):
    """One position of decoding. It knows rows and nothing of beams."""

    @abc.abstractmethod
    def __call__(self, previous: Tensor, position: Tensor, caches: Caches) -> tuple[Tensor, Caches]:
        """Reads an id of each row and says what may come next.

        Args:
            previous: [batch] int32, the ids before the position.
            position: int32 scalar.
            caches: of the position before; empty in the call before the first one, of which only
                the names and shapes of caches are used, and zeros then unless a prompt was read.

        Returns:
            Log-probabilities [batch, vocab], -inf for ids that must never be chosen, and the
            caches, always of the same names and shapes.
        """

    def repeated(self, times: int) -> Step:
        """The same step for `times` rows in the place of each, in order.

        Caches are repeated by who decodes; this is for what a step keeps of its rows besides.
        """
        return self

    def runs_as_kernel(self, count: int | Size) -> bool:
        """Whether XLA is to compile the loop over positions, see `mtf.while_loop`.

        Args:
            count: how many hypotheses, of all rows, are decoded at once.
        """
        return False
