"""Scoring the examples of a file or of a task's split: how likely a model finds them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtf_models.decode.options import EOS
from mtf_models.errors import failing_run
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import ScoreOptions
from mtf_models.runtime.using.batches import batch_rows, report_trimmed
from mtf_models.runtime.using.records import check_source, read_records
from mtf_models.runtime.using.trained import load_for_use
from mtf_models.runtime.whole_file import check_output, write_text
from mtf_models.transformer.delimited import DelimitedUnitransformer

if TYPE_CHECKING:
    from mtf_models.data.records import Record


def run(options: ScoreOptions) -> None:
    """Scores each example into a line of JSON, and prints the perplexity at the end.

    A line has the texts, the `log_probability` of the target (natural logarithm, end of sequence
    counted), and the `token_log_probabilities` and `token_ids` that it is the sum of.

    Raises:
        MtfError: if the folder or the input cannot be used, or the output not written.
    """
    check_source(options)
    if options.output is not None:
        check_output(options.output)
    model, step = load_for_use(options)
    with model.config.active():
        _, records = read_records(model, options, model.network.feature_names)
        with failing_run():
            scores = score(model, records)
    rows = [_row(r, s) for r, s in zip(records, scores, strict=True)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if options.output is None:
        print(text, end="")
    else:
        with failing_run():
            write_text(Path(options.output), text, cure="Give another --output.")
        print(f"Wrote {len(rows)} scores of step {step} to {options.output}.")
    tokens, total = sum(map(len, scores)), float(sum(s.sum() for s in scores))
    perplexity = math.exp(-total / max(tokens, 1))
    # Standard output has the rows alone, where they go there.
    print(
        f"perplexity {perplexity:.6g} of {tokens} tokens, log-probability {total:.6g}",
        file=sys.stderr if options.output is None else sys.stdout,
    )


def score(model: Model, records: Sequence[Record]) -> list[np.ndarray]:
    """The log-probability of each token of the targets, for each record.

    Args:
        model: what scores.
        records: with the features that its network reads.

    Returns:
        For each record [tokens] float32, up to the first end of sequence.
    """
    from mtf_models.data.buckets import bucketed, trimmed

    names = model.network.feature_names
    lengths = {name: model.settings.sequence_length[name] for name in names}
    examples = [record.ids for record in records]
    report_trimmed(trimmed(examples, lengths), len(records), lengths)
    found: dict[int, np.ndarray] = {}
    for batch in bucketed(examples, lengths, batch_rows(model, len(records))):
        values = model.token_scores(batch.features).numpy()
        for row, place in enumerate(batch.places):
            # Where inputs and targets are one sequence, targets come after them.
            joined = isinstance(model.network, DelimitedUnitransformer)
            begin = np.count_nonzero(batch.features["inputs"][row]) if joined else 0
            count = len(_counted(batch.features["targets"][row]))
            found[place] = values[row, begin : begin + count]
    return [found[place] for place in range(len(records))]


def _counted(ids: np.ndarray) -> np.ndarray:
    """The ids that are scored: up to the first end of sequence, else up to the padding."""
    ids = np.trim_zeros(ids, "b")
    ends = np.flatnonzero(ids == EOS)
    return ids[: ends[0] + 1] if len(ends) else ids


def _row(record: Record, scores: np.ndarray) -> dict[str, Any]:
    names = {"inputs": "input", "targets": "target"}
    row: dict[str, Any] = {names[n]: text for n, text in record.texts.items()}
    return {
        **row,
        **record.more,
        "log_probability": round(float(scores.sum()), 6),
        "token_ids": _counted(record.ids["targets"])[: len(scores)].tolist(),
        "token_log_probabilities": [round(float(x), 6) for x in scores],
    }
