"""Texts of rows while they are decoded: pieces as they become certain, and their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mtf_models.decode.text_stream import TextStream


class FollowedTexts:
    """A listener that keeps the text of each row and ends rows at stop strings.

    Args:
        streams: of the first rows; rows after theirs are ended at once.
        tell: called with a row and a piece of its text that no later id changes.
        is_over: called with a row after each id; whether it is to end for another reason.
    """

    def __init__(
        self,
        streams: Sequence[TextStream],
        tell: Callable[[int, str], None] = lambda row, piece: None,
        is_over: Callable[[int], bool] = lambda row: False,
    ) -> None:
        self.streams = streams
        self._tell = tell
        self._is_over = is_over

    def __call__(self, position: int, token: np.ndarray) -> np.ndarray:
        """See `decode.listener.ListenerFunction`."""
        ended = np.zeros(len(token), bool)
        ended[len(self.streams) :] = True
        for row, stream in enumerate(self.streams):
            if token[row] < 0:
                continue
            if piece := stream.add(int(token[row])):
                self._tell(row, piece)
            ended[row] = stream.stopped or self._is_over(row)
        return ended

    def finish(self) -> None:
        """Tells what was held back, when no id comes any more."""
        for row, stream in enumerate(self.streams):
            if rest := stream.rest():
                self._tell(row, rest)
