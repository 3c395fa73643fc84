"""The text of ids that come one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """Grows by an id at a time, and tells when a stop string is in it.

    What later ids may still change is held back: a character of which bytes are missing, and what
    may be the beginning of a stop string.

    Args:
        decode: ids to text.
        stop: strings that end the text, and are no part of it.
        given: ids that the text begins with; no stop string is looked for in their text.

    Attributes:
        ids: so far, without those that were given.
        stopped: whether a stop string was found.
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        stop: Sequence[str] = (),
        given: Sequence[int] = (),
    ) -> None:
        self._decode = decode
        self._stop = tuple(stop)
        self._given = list(given)
        self._begin = len(decode(self._given)) if given else 0
        self._told = 0
        self.ids: list[int] = []
        self.stopped = False

    @property
    def text(self) -> str:
        """All of it, up to the first stop string."""
        text = self._decoded()
        return text[: self._end(text)]

    def add(self, token: int) -> str:
        """Takes an id, and returns the text that is certain by it."""
        self.ids.append(token)
        text = self._decoded()
        end = self._end(text)
        self.stopped = end < len(text)
        return self._tell(text, end if self.stopped else len(text) - self._unsure(text))

    def rest(self) -> str:
        """The text that was held back, when no id comes any more."""
        return self._tell(self.text, len(self.text))

    def _decoded(self) -> str:
        return self._decode(self._given + self.ids)

    def _tell(self, text: str, end: int) -> str:
        told = text[self._told : end]
        self._told = max(self._told, end)
        return told

    def _end(self, text: str) -> int:
        """Where the first stop string begins, or the text ends."""
        found = [place for place in (text.find(s, self._begin) for s in self._stop) if place >= 0]
        return min(found, default=len(text))

    def _unsure(self, text: str) -> int:
        """How many characters at the end may change."""
        broken = len(text) - len(text.rstrip(_INCOMPLETE))
        begun = [n for s in self._stop for n in range(1, len(s)) if text.endswith(s[:n])]
        return max([broken, *begun])
