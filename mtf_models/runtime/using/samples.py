"""Examples beside what a model made of them, as a table to read and as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_SAMPLES = 10
_INPUT_WIDTH = 40


@dataclass(frozen=True)
class Sample:
    """One example beside what the model made of it.

    Attributes:
        input: its text; None of a language model's.
        reference: what the task compares with, often a text or a list of texts that are right.
        prediction: the text that was decoded; None if nothing was.
        value: what the task makes of that text.
        log_probability: of the target; None if it was not scored.
    """

    input: str | None
    reference: Any
    prediction: str | None = None
    value: Any = None
    log_probability: float | None = None

    @property
    def references(self) -> list[str]:
        """The texts that are right."""
        return [str(one) for one in self._references()]

    @property
    def right(self) -> bool:
        """Whether the prediction is, as the task reads it, one of the references."""
        return any(_same(self.value, one) for one in (self.reference, *self._references()))

    def text(self, width: int) -> str:
        """A line: input, prediction, whether it is right, references."""
        given = _visible(self.input or "")[:width]
        mark = "=" if self.right else "≠"
        references = _visible(" | ".join(self.references))
        return f"  {given:<{width}}  {_visible(str(self.prediction))}  {mark}  {references}"

    def row(self) -> dict[str, Any]:
        """What there is of it, as JSON can hold it."""
        row: dict[str, Any] = {"input": self.input, "references": self.references}
        if self.input is None:
            del row["input"]
        if self.prediction is not None:
            row |= {"prediction": str(self.prediction), "right": self.right}
            if str(self.value) != row["prediction"]:
                row["value"] = str(self.value)
        if self.log_probability is not None:
            row["log_probability"] = self.log_probability
        return row

    def _references(self) -> list[Any]:
        return self.reference if isinstance(self.reference, list) else [self.reference]


def samples_of(
    task: Any,
    examples: Sequence[Mapping[str, Any]],
    predictions: Sequence[str],
    scores: Sequence[float],
) -> list[Sample]:
    """All examples of a task.

    Args:
        task: the task.
        examples: with all that its dataset says of them.
        predictions: the text decoded for each; empty if nothing was decoded.
        scores: the log-probability of each target; empty if they were not scored.
    """
    return [
        _sample(
            task,
            example,
            predictions[place] if predictions else None,
            float(scores[place]) if len(scores) else None,
        )
        for place, example in enumerate(examples)
    ]


def _sample(
    task: Any, example: Mapping[str, Any], prediction: str | None, score: float | None
) -> Sample:
    from mtf_models.data.metrics import reference

    value = None
    if prediction is not None:
        value = task.postprocess_fn(prediction, example=example, is_target=False)
    return Sample(_input_text(task, example), reference(task, example), prediction, value, score)


def table(samples: Sequence[Sample]) -> list[str]:
    """Some of the samples that have predictions, evenly spaced, one to a line."""
    decoded = [sample for sample in samples if sample.prediction is not None]
    places = np.linspace(0, len(decoded) - 1, min(_SAMPLES, len(decoded))).astype(int)
    shown = [decoded[place] for place in places]
    width = min(max((len(s.input or "") for s in shown), default=0), _INPUT_WIDTH)
    return [sample.text(width) for sample in shown]


def _same(value: Any, one: Any) -> bool:
    return bool(np.all(value == one)) if isinstance(value, np.ndarray) else value == one


def _input_text(task: Any, example: Mapping[str, Any]) -> str | None:
    text = example.get("inputs_pretokenized")
    if text is None:
        feature = task.output_features.get("inputs")  # Its dataset may have more than it.
        if feature is None or example.get("inputs") is None:
            return None
        text = feature.vocabulary.decode(example["inputs"].tolist())
    if isinstance(text, list):  # Of a vocabulary that has no texts.
        return " ".join(map(str, text))
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)


def _visible(text: str) -> str:
    """A text in which what no terminal should be sent is replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
