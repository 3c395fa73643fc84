"""Rows of inputs to texts and scores, as options ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mtf_models.decode.followed import FollowedTexts
from mtf_models.decode.result import NO_SEQUENCE
from mtf_models.decode.text_stream import TextStream
from mtf_models.runtime.model.decode_request import DecodeRequest, settings_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import InferOptions
from mtf_models.runtime.using.asked import asked_of, follows
from mtf_models.transformer.delimited import DelimitedUnitransformer
from mtf_models.transformer.unitransformer import Unitransformer

Row = dict[str, Any]


def longest_input(model: Model) -> int:
    """How many ids of an input a model reads."""
    lengths = model.settings.sequence_length
    return lengths.get("inputs", lengths["targets"])


class TextDecoder:
    """Decodes with a model to the texts of a task.

    Args:
        model: restored.
        task: whose vocabularies are used.
        options: how to decode.

    Attributes:
        each: sequences of a row.
        follows: whether texts can be followed while they are decoded.

    Raises:
        ConfigError: if options do not fit together, or the model.
    """

    def __init__(self, model: Model, task: Any, options: InferOptions) -> None:
        self.model = model
        self._task = task
        self._vocabulary = task.output_features["targets"].vocabulary
        self._asked = asked_of(model, options)
        self._stop = options.stop
        self._prefix = self._vocabulary.encode(options.prefix) if options.prefix else []
        decoding = settings_of(model, DecodeRequest.of(**self._asked)).options
        self.each = decoding.num_return
        self.follows = follows(model, decoding)

    def rows(
        self,
        inputs: np.ndarray,
        numbers: Sequence[int],
        count: int,
        tell: Callable[[int, str], None] | None = None,
        is_over: Callable[[int], bool] | None = None,
    ) -> list[Row]:
        """Decodes a batch.

        Args:
            inputs: [batch, length] ids.
            numbers: to tell equal rows apart, see `Model.decode`.
            count: so many of the rows are wanted, the first ones.
            tell: see `FollowedTexts`, as for the other; where texts can be followed.
            is_over: by sequence, as `tell`.

        Returns:
            For each row the `prediction` and its `score`, and for several sequences of each all
            `predictions` and `scores`, best first.
        """
        asked, followed = dict(self._asked), None
        if self._prefix:
            asked["prefix"] = np.tile(np.array(self._prefix, np.int32), [len(inputs), 1])
        if self.follows and (self._stop or tell or is_over):
            told = {"tell": tell, "is_over": is_over}
            followed = FollowedTexts(
                [self._stream(row) for row in inputs[:count] for _ in range(self.each)],
                **{name: function for name, function in told.items() if function is not None},
            )
            asked["listener"] = followed
        found = self.model.decode({"inputs": inputs}, row_numbers=numbers, **asked)
        scores = found.scores.numpy()[:count].reshape([count, self.each])
        if followed is None:
            texts = self._texts(found.ids.numpy()[:count])
        else:
            followed.finish()
            texts = [stream.text for stream in followed.streams]
        grouped = [texts[row * self.each : (row + 1) * self.each] for row in range(count)]
        return [self._row(*row) for row in zip(grouped, scores, strict=True)]

    def _stream(self, inputs: np.ndarray) -> TextStream:
        """Of a row; what it is given to begin with is part of its text."""
        continues = isinstance(self.model.network, Unitransformer)
        continues &= not isinstance(self.model.network, DelimitedUnitransformer)
        given = np.trim_zeros(inputs, "b").tolist() if continues else self._prefix
        return TextStream(self._vocabulary.decode, self._stop, given)

    def _texts(self, ids: np.ndarray) -> list[str]:
        """The texts of [rows, length] or [rows, beam, length] ids, one row after another."""
        from mtf_models.data.evaluation import decode_texts

        return decode_texts(self._task, ids.reshape([-1, ids.shape[-1]]))

    def _row(self, texts: Sequence[str], scores: np.ndarray) -> Row:
        values = [round(float(x), 6) for x in scores]
        made: Row = {"prediction": texts[0], "score": values[0]}
        if self.each > 1:
            there = [i for i, value in enumerate(values) if value > NO_SEQUENCE] or [0]
            made["predictions"] = [texts[i] for i in there]
            made["scores"] = [values[i] for i in there]
        return made
