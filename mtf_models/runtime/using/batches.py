"""Batches of evaluation and prediction: how many rows they have, and what of them is cut."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from mtf_models.mesh import Dimension
from mtf_models.runtime.bindings.settings import batch_size_on
from mtf_models.runtime.model.model import Model

if TYPE_CHECKING:
    from mtf_models.data.evaluation import EvaluationBatch

_log = logging.getLogger("mtf_models")


def batch_rows(model: Model, examples: int | None = None) -> int:
    """Rows in a batch of evaluation or prediction: the config's, whole on every part of the mesh.

    Args:
        model: what evaluates or predicts.
        examples: how many there are at the most, if that is known.
    """
    rows = batch_size_on(model.mesh, model.settings)
    rows = min(rows, examples or rows)
    parts = model.mesh.splits(Dimension("batch", rows))
    return -(-rows // parts) * parts


def report_trimmed(trimmed: Mapping[str, int], examples: int, lengths: Mapping[str, int]) -> None:
    """Says how many examples were longer than the model reads.

    Args:
        trimmed: feature name to how many examples were cut.
        examples: how many there were.
        lengths: feature name to length.
    """
    for name, count in trimmed.items():
        if count:
            _log.warning("%d of %d %s were cut to %d tokens.", count, examples, name, lengths[name])


def reporting_trimmed(
    batches: Iterable[EvaluationBatch], lengths: Mapping[str, int]
) -> Iterator[EvaluationBatch]:
    """Hands batches on, and at their end says what of them was cut, see `report_trimmed`.

    Args:
        batches: of examples.
        lengths: feature name to length.
    """
    trimmed, examples = dict.fromkeys(lengths, 0), 0
    for batch in batches:
        trimmed = {name: count + batch.trimmed[name] for name, count in trimmed.items()}
        examples += batch.rows
        yield batch
    report_trimmed(trimmed, examples, lengths)
