"""One text after another, decoded as they come."""

from __future__ import annotations

import collections
import logging
import threading
from collections.abc import Callable

import numpy as np

from mtf_models.errors import ConfigError
from mtf_models.runtime.options import InferOptions
from mtf_models.runtime.using.batches import batch_rows
from mtf_models.runtime.using.interruptible import interruptible
from mtf_models.runtime.using.records import task_of
from mtf_models.runtime.using.text_decoder import Row, TextDecoder, longest_input
from mtf_models.runtime.using.trained import load_for_use

_log = logging.getLogger("mtf_models")


class Answers:
    """A model that answers texts, in one compiled shape for each way of decoding.

    Args:
        options: of the command.

    Attributes:
        step: of the checkpoint.
        options: how texts are decoded; what is assigned is checked first.

    Raises:
        MtfError: if the folder cannot be used, or options do not fit.
    """

    def __init__(self, options: InferOptions) -> None:
        given = [f"--{n}" for n in ("input", "output", "split", "num_examples") if _is(options, n)]
        if given:
            raise ConfigError(
                f"--interactive reads lines and prints texts: leave out {', '.join(given)}."
            )
        self._model, self.step = load_for_use(options)
        with self._model.config.active():
            self._task = task_of(self._model, options)
        self._seen: collections.Counter[bytes] = collections.Counter()
        self.options = options

    @property
    def options(self) -> InferOptions:
        """How texts are decoded."""
        return self._options

    @options.setter
    def options(self, options: InferOptions) -> None:
        self._decoder = TextDecoder(self._model, self._task, options)
        self._options = options

    @property
    def streams(self) -> bool:
        """Whether an answer is told while it is decoded: of one sequence that can be followed."""
        return self._decoder.follows and self._decoder.each == 1

    def answer(self, text: str, tell: Callable[[str], None]) -> tuple[Row, bool]:
        """Decodes a text.

        Args:
            text: the input.
            tell: if `streams`, is called with pieces of the answer as they come.

        Returns:
            What `TextDecoder.rows` makes of it, and whether Ctrl-C stopped it: what there is of
            texts that can be followed is returned then, otherwise the whole.
        """
        ids = self._encoded(text)
        number = self._seen[ids.tobytes()]
        self._seen[ids.tobytes()] += 1
        rows = batch_rows(self._model, 1)
        inputs, numbers = np.tile(ids, [rows, 1]), [number] * rows
        piece = (lambda row, piece: tell(piece)) if self.streams else None
        stopped = False

        def work(stop: threading.Event) -> Row:
            nonlocal stopped
            (found,) = self._decoder.rows(inputs, numbers, 1, piece, lambda row: stop.is_set())
            stopped = stop.is_set()
            return found

        found = interruptible(work, "" if self._decoder.follows else _NOTICE)
        return found, stopped

    def _encoded(self, text: str) -> np.ndarray:
        """[length] ids, zeros after their end; what is longer than the model reads is cut."""
        from mtf_models.data.buckets import padded
        from mtf_models.data.encoding import encoding_of

        vocabulary, end = encoding_of(self._task, "inputs")
        ids = np.array([*vocabulary.encode(text), *end], np.int32)
        longest = longest_input(self._model)
        if len(ids) > longest:
            _log.warning("The input has %d tokens and was cut to %d.", len(ids), longest)
        return padded([ids], longest)[0]


_NOTICE = "Stopping after this answer, which cannot be stopped on its way. Once more ends mtf."


def _is(options: InferOptions, name: str) -> bool:
    return getattr(options, name) is not None
